"""What the daemon asks of a training process: one line of JSON on its standard input, told apart by ``kind``."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fleet_protocol.errors import MessageError
from fleet_protocol.messages import Work, parse, to_json

_TEACH = "teach"


@dataclass(frozen=True)
class RoundWork:
    """The device's part in a round, ``kind`` as in :class:`fleet_protocol.messages.Work`.

    Attributes:
        work: Request of the aggregator.
    """

    work: Work


@dataclass(frozen=True)
class OwnerTraining:
    """Learning what the owner taught, ``{"kind": "teach"}``.

    Attributes:
        work: None: no aggregator asked for it.
    """

    work: None = None


TrainingJob = RoundWork | OwnerTraining


def to_line(job: TrainingJob) -> str:
    """Return a job as the training process reads it."""
    document = {"kind": _TEACH} if job.work is None else to_json(job.work)
    return json.dumps(document) + "\n"


def from_line(line: str) -> TrainingJob:
    """Read a job.

    Raises:
        MessageError: the line is no job.
    """
    try:
        document = json.loads(line)
    except ValueError as error:
        raise MessageError(f"a training job must be a line of JSON: {error}") from error
    if isinstance(document, dict) and document.get("kind") == _TEACH:
        return OwnerTraining()
    return RoundWork(parse(Work, document))
