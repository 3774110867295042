"""From a request to a round's plan, with every setting filled in."""

import json
from dataclasses import replace
from functools import lru_cache

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.shared_models import has_network, with_network
from aggregator_server.schemas import RoundRequest
from aggregator_server.store.tables import DeviceRow, Json, ModelRow, RoundRow
from aggregator_server.strategies.registry import complete, known_settings, strategies, strategy
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.errors import PlanError
from fleet_protocol.messages import Choice, OtherNetworks, RoundPlan, parse
from fleet_protocol.personalisations import personalisations
from fleet_protocol.setting import Value

_MAX_DEADLINE_S = 30 * 86_400.0


def parsed_plan(plan: Json) -> RoundPlan:
    """Return the plan of a round's row. Every request of every device needs it, so it is parsed once."""
    return plan_of_text(json.dumps(plan))


@lru_cache(maxsize=32)
def plan_of_text(plan: str) -> RoundPlan:
    """Return a plan from the JSON text that a round's row holds."""
    return parse(RoundPlan, json.loads(plan))


def make_plan(request: RoundRequest, chosen: Strategy | None = None) -> RoundPlan:
    """Turn a request into a plan with every setting filled in.

    Args:
        chosen: the request's strategy, where it is known already.

    Raises:
        RefusedError: there is no such strategy.
        RefusedError: a setting is unknown, of a wrong type or out of range.
    """
    chosen = chosen or strategy(request.strategy)
    _check(request)
    try:
        personalisation = complete("personalisation", request.personalisation or Choice(chosen.personalisation))
        _check_groups(personalisation, chosen)
        return RoundPlan(
            local=complete("local", Choice(chosen.local, request.settings)),
            aggregation=_aggregation(chosen, request.aggregation),
            selection=complete("selection", _choice(request.selection or {}, chosen.selection)),
            deadline_s=float(request.deadline_s),
            quorum=float(request.quorum),
            seed=request.seed,
            personalisation=personalisation,
            other_networks=_part_of_other_networks(request.other_networks, chosen),
        )
    except PlanError as error:
        raise RefusedError("invalid_plan", str(error)) from error


def _check(request: RoundRequest) -> None:
    """Check the numbers that are no method's settings."""
    if not 0 < request.deadline_s <= _MAX_DEADLINE_S:
        raise RefusedError(
            "invalid_plan", f"deadline_s must be above 0 and at most {_MAX_DEADLINE_S:g} s, not {request.deadline_s!r}"
        )
    if not 0 <= request.quorum <= 1:
        raise RefusedError("invalid_plan", f"quorum is a share from 0 to 1, not {request.quorum!r}")
    if not 0 <= request.seed < 2**31:
        raise RefusedError("invalid_plan", f"seed must be from 0 to {2**31 - 1}, not {request.seed!r}")
    if request.new_classes is not None and not 1 <= request.new_classes <= 1_000:
        raise RefusedError(
            "invalid_plan", f"new_classes must be from 1 to 1000 or left out, not {request.new_classes!r}"
        )


def _check_groups(personalisation: Choice, chosen: Strategy) -> None:
    """Check that there is a model which groups can train among themselves, where the personalisation has groups."""
    known = personalisations()
    if known[personalisation.name].groups and not chosen.shares_model:
        able = ", ".join(sorted(name for name, other in known.items() if not other.groups))
        raise RefusedError(
            "invalid_plan",
            f"strategy {chosen.name!r} shares no model that groups could train among themselves; "
            f"its personalisation can be: {able}",
        )


def _part_of_other_networks(wanted: Choice | None, chosen: Strategy) -> OtherNetworks | None:
    """Return what devices of other networks do in a round."""
    if wanted is None:
        return None
    if not chosen.shares_model:
        raise RefusedError(
            "invalid_plan",
            f"strategy {chosen.name!r} shares no model, so devices of any network follow it: leave out other_networks",
        )
    theirs = strategy(wanted.name)
    if not theirs.shares_scores:
        able = ", ".join(sorted(name for name, other in strategies().items() if other.shares_scores))
        raise RefusedError(
            "invalid_plan",
            f"other_networks cannot follow {wanted.name!r} in a round of another strategy; they can: {able}",
        )
    local = complete("local", Choice(theirs.local, wanted.settings))
    return OtherNetworks(strategy=theirs.name, local=local, aggregation=_aggregation(theirs, {}))


def _choice(wanted: Choice | dict[str, Value], own: str) -> Choice:
    """Return the method that was named, else the strategy's own with these settings."""
    if isinstance(wanted, Choice):
        return wanted
    # A name alone reads like one setting, and no method has a setting of that name.
    return Choice(str(wanted["name"])) if list(wanted) == ["name"] else Choice(own, wanted)


def _aggregation(chosen: Strategy, wanted: Choice | dict[str, Value]) -> Choice:
    """Return the plan's aggregation part: the rule that was named, else the strategy's own with these settings."""
    wanted = _choice(wanted, chosen.aggregation)
    if wanted.name not in chosen.aggregations:
        allowed = ", ".join(sorted(chosen.aggregations))
        raise RefusedError(
            "invalid_plan", f"this strategy cannot use the aggregation {wanted.name!r}; it can use: {allowed}"
        )
    known = known_settings("aggregation")[wanted.name]
    own = {name: value for name, value in chosen.defaults.items() if name in known}
    return complete("aggregation", Choice(wanted.name, own | wanted.settings))


def with_another_network(session: Session, version: int | None) -> frozenset[str]:
    """Return the devices without the network of a version of the shared model; none where there is no such version."""
    if version is None:
        return frozenset()
    model = session.get_one(ModelRow, version)
    return frozenset(session.scalars(select(DeviceRow.device_id).where(~with_network(model))))


def is_other(session: Session, row: RoundRow, device_id: str) -> bool:
    """Tell whether a device, as it is now, does a round's part for other networks."""
    if row.model_version is None or parsed_plan(row.plan).other_networks is None:
        return False
    return not has_network(session.get_one(DeviceRow, device_id), session.get_one(ModelRow, row.model_version))


def followed_strategy(plan: RoundPlan, own: str, *, other: bool) -> str:
    """Return the name of the strategy that a device follows in a round."""
    return plan.other_networks.strategy if other and plan.other_networks is not None else own


def plan_for_other_networks(plan: RoundPlan, others: OtherNetworks) -> RoundPlan:
    """Return a plan as the devices get it that do its part for other networks: they fine-tune no model."""
    return replace(
        plan, local=others.local, aggregation=others.aggregation, personalisation=Choice("none"), other_networks=None
    )
