"""A round's plan and its groups, as the round's row holds them."""

import json
from functools import lru_cache

from aggregator_server.store.tables import Json, RoundRow
from fleet_protocol.messages.rest import RoundPlan, parse
from fleet_protocol.methods.group_balanced import Schedule


def parsed_plan(plan: Json) -> RoundPlan:
    """Return the plan of a round's row. Every request of every device needs it, so it is parsed once."""
    return plan_of_text(json.dumps(plan))


@lru_cache(maxsize=32)
def plan_of_text(plan: str) -> RoundPlan:
    """Return a plan from the JSON text that a round's row holds."""
    return parse(RoundPlan, json.loads(plan))


def schedule_of(fleets: RoundRow) -> Schedule:
    """Return the groups whose rounds follow a round of the fleet; none without group-balanced personalisation."""
    return Schedule((), ()) if fleets.groups is None else parse(Schedule, fleets.groups)
