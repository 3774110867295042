"""Bodies that are not JSON, and how large a body each address takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BINARY: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BINARY_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": BINARY}}


@dataclass(frozen=True)
class BodySizes:
    """Largest bodies in bytes.

    Attributes:
        message: Limit of a JSON message.
        update: Limit of a device's upload.
        public_set: Limit of a public set.
        model: Limit of a shared model's bundle.
    """

    message: int = 2**20
    update: int = 64 * 2**20
    public_set: int = 512 * 2**20
    model: int = 64 * 2**20

    def limit_of(self, method: str, path: str) -> int:
        """Return the limit for a request."""
        if method == "PUT" and path == "/v1/public-set":
            return self.public_set
        if method == "PUT" and path == "/v1/model":
            return self.model
        if method == "PUT" and path.startswith("/v1/rounds/") and path.endswith("/update"):
            return self.update
        return self.message
