"""What the field of a message means, for the schema of REST and for whoever reads the code."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Doc:
    """What a field means; the schema of REST has it."""

    text: str

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:  # noqa: ANN401  (pydantic's own)
        return {**handler(schema), "description": self.text}
