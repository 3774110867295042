"""Which devices take part in a round: pure functions, by the name that a plan gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet_protocol.messages import RoundPlan


def select_all(devices: Sequence[str], _plan: RoundPlan) -> tuple[str, ...]:
    """Select every device of the fleet."""
    return tuple(devices)


SELECTIONS: dict[str, Callable[[Sequence[str], RoundPlan], tuple[str, ...]]] = {"all": select_all}
