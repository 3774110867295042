"""Devices with another network than the shared model's, which do the plan's part for others in the same round."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.fleet.shared_models import has_network
from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.store.tables import DeviceRow, ModelRow, RoundRow
from fleet_protocol.messages import Choice, OthersPart, RoundPlan


def with_another_network(session: Session, version: int | None) -> frozenset[str]:
    """Return the devices without the network of a version of the shared model; none where there is no such version."""
    if version is None:
        return frozenset()
    model = session.get_one(ModelRow, version)
    return frozenset(row.device_id for row in session.scalars(select(DeviceRow)) if not has_network(row, model))


def is_other(session: Session, row: RoundRow, device_id: str) -> bool:
    """Tell whether a device, as it is now, does a round's part for others."""
    if row.model_version is None or parsed_plan(row.plan).others is None:
        return False
    return not has_network(session.get_one(DeviceRow, device_id), session.get_one(ModelRow, row.model_version))


def followed_strategy(plan: RoundPlan, own: str, *, other: bool) -> str:
    """Return the name of the strategy that a device follows in a round.

    Args:
        plan: of the round.
        own: the round's own strategy.
        other: whether the device does the plan's part for others.
    """
    return plan.others.strategy if other and plan.others is not None else own


def plan_for_others(plan: RoundPlan, others: OthersPart) -> RoundPlan:
    """Return a plan as the devices get it that do its part for others: they share no model, so none is fine-tuned."""
    return replace(
        plan, local=others.local, aggregation=others.aggregation, personalisation=Choice("none"), others=None
    )
