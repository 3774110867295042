"""The strategies that a round can follow, by name: which method each part of the plan uses, and the functions for it.

A strategy is data and two pure functions; a new one is a module with them and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aggregator_server import zero_shot
from aggregator_server.errors import UnknownStrategyError
from aggregator_server.round_data import RoundInputs, RoundResult, UploadTerms
from fleet_protocol.messages import Update
from fleet_protocol.tensors import Arrays


@dataclass(frozen=True)
class Strategy:
    """A way to run a round.

    Attributes:
        local: method of the plan's local part; its settings stand in fleet_protocol.plans, as do the next two's.
        aggregation: method of the plan's aggregation part.
        selection: method of the plan's selection part.
        check: refuses an upload that does not fit (MalformedUpdateError).
        aggregate: combines a round's uploads; pure.
    """

    local: str
    aggregation: str
    selection: str
    check: Callable[[UploadTerms, Update, Arrays], None]
    aggregate: Callable[[RoundInputs], RoundResult]


STRATEGIES: dict[str, Strategy] = {
    "zero_shot": Strategy("zero_shot", "label_wise", "all", zero_shot.check, zero_shot.aggregate),
}


def strategy(name: str) -> Strategy:
    """Return a strategy.

    Raises:
        UnknownStrategyError: there is none of that name; says which there are.
    """
    if name not in STRATEGIES:
        raise UnknownStrategyError(f"unknown strategy {name!r}; known: {', '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name]
