"""What the daemon asks of a training process: one line of JSON on its standard input."""

import json

from fleet_protocol.errors import MessageError
from fleet_protocol.messages.rest import Work, parse, to_json

_TEACH = "teach"


TrainingJob = Work | None
"""The device's part in a round; None: learning what the owner taught, ``{"kind": "teach"}``."""


def to_line(job: TrainingJob) -> str:
    """Return a job as the training process reads it."""
    document = {"kind": _TEACH} if job is None else to_json(job)
    return json.dumps(document) + "\n"


def from_line(line: str) -> TrainingJob:
    """Read a job. Raises MessageError if the line is no job."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise MessageError(f"a training job must be a line of JSON: {error}") from error
    if isinstance(document, dict) and document.get("kind") == _TEACH:
        return None
    return parse(Work, document)
