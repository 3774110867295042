"""What the daemon asks of a training process: one line of JSON on its standard input; and a plan as it may be used."""

import dataclasses
import json

from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.personalisation import personalisations
from fleet_protocol.errors import MessageError, PlanError
from fleet_protocol.messages.rest import Choice, RoundPlan, Work, parse, to_json
from fleet_protocol.methods.setting import Settings, complete

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


def checked_plan(plan: RoundPlan) -> RoundPlan:
    """Return a plan without settings that this version does not know; raise a PlanError for one out of its range.

    The local method may be one that this version does not know, the personalisation may not.
    """
    method, personalisation = local_methods().get(plan.local.name), personalisations().get(plan.personalisation.name)
    if personalisation is None:
        raise PlanError(f"this device knows no personalisation {plan.personalisation.name!r}; update its software")
    local = plan.local if method is None else _checked(plan.local, method.settings)
    personal = _checked(plan.personalisation, personalisation.settings)
    return dataclasses.replace(plan, local=local, personalisation=personal)


def _checked(choice: Choice, known: Settings) -> Choice:
    given = {name: value for name, value in choice.settings.items() if name in known}
    return Choice(choice.name, complete(f"the plan's {choice.name!r}", known, given))
