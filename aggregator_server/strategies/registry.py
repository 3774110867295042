"""The strategies that a round can follow, by name: which method each part of the plan uses, and the functions for it.

A strategy is data and two pure functions. Further ones come from installed packages, by the entry point group
``auricle.strategies`` (docs/writing-a-strategy.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points

from aggregator_server.aggregation.contract import RoundInputs, RoundResult, UploadTerms
from aggregator_server.errors import StartError, UnknownStrategyError
from aggregator_server.strategies import statistics, weight_sharing, zero_shot
from aggregator_server.strategies.statistics import DeviceStatistics
from fleet_protocol.aggregation_methods import AGGREGATION
from fleet_protocol.messages import Choice, Update
from fleet_protocol.plans import METHODS, Part, Value
from fleet_protocol.tensors import Arrays

GROUP = "auricle.strategies"
OF_WEIGHTS = tuple(name for name in AGGREGATION if name != "label_wise")


def unchanged(local: Choice, _devices: tuple[DeviceStatistics, ...], _classes: int) -> Choice:
    """Leave the plan's local part as it is."""
    return local


@dataclass(frozen=True)
class Strategy:
    """A way to run a round.

    Attributes:
        local: method of the plan's local part; its settings stand in fleet_protocol.plans, as do the next two's.
        aggregation: method of the plan's aggregation part, where a request names none.
        selection: method of the plan's selection part, where a request names none.
        check: refuses an upload that does not fit (MalformedUpdateError).
        aggregate: combines a round's uploads; pure.
        aggregations: every method that a request may name for the aggregation; empty: ``aggregation`` alone.
        defaults: settings of the aggregation whose defaults are others here.
        shares_model: whether devices train the fleet's shared model.
        prepare: (local part, what the devices told of themselves, number of classes) -> the local part, when a round
            opens; for settings that depend on the fleet.
    """

    local: str
    aggregation: str
    selection: str
    check: Callable[[UploadTerms, Update, Arrays], None]
    aggregate: Callable[[RoundInputs], RoundResult]
    aggregations: tuple[str, ...] = ()
    defaults: Mapping[str, Value] = field(default_factory=dict)
    shares_model: bool = False
    prepare: Callable[[Choice, tuple[DeviceStatistics, ...], int], Choice] = unchanged


def sharing(
    local: str,
    aggregation: str = "weighted_mean",
    *,
    defaults: Mapping[str, Value] | None = None,
    prepare: Callable[[Choice, tuple[DeviceStatistics, ...], int], Choice] = unchanged,
    aggregate: Callable[[RoundInputs], RoundResult] = weight_sharing.aggregate,
) -> Strategy:
    """Return a strategy that shares a model.

    Args:
        local: the local method.
        aggregation: the rule that combines the weights, where a request names none.
        defaults: settings of the rule whose defaults are others here.
        prepare: see :class:`Strategy`.
        aggregate: combines the uploads.
    """
    return Strategy(
        local, aggregation, "all", weight_sharing.check, aggregate,
        OF_WEIGHTS if aggregation in OF_WEIGHTS else (), defaults or {}, True, prepare,
    )  # fmt: skip


STRATEGIES: dict[str, Strategy] = {
    "zero_shot": Strategy("zero_shot", "label_wise", "all", zero_shot.check, zero_shot.aggregate),
    "fedavg": sharing("fedavg"),
    "fedprox": sharing("fedprox"),
    "fedmmd": sharing("fedmmd"),
    "fedopt": sharing("fedavg", defaults={"server_optimiser": "adam"}),
    "mutual": sharing("mutual", "lpa"),
    "user_invariant": sharing(
        "user_invariant", defaults={"by_size": False}, prepare=statistics.adaptive_local_training
    ),
}


@cache
def strategies() -> Mapping[str, Strategy]:
    """Return every strategy by name: the built-in ones, and those of installed packages.

    Raises:
        StartError: a package's strategy cannot be loaded, has a name that is taken, or names an unknown method.
    """
    found = dict(STRATEGIES)
    for entry in entry_points(group=GROUP):
        where = f"strategy {entry.name!r} ({entry.value}, entry point group {GROUP})"
        try:
            loaded = entry.load()
        except Exception as error:
            raise StartError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(loaded, Strategy):
            raise StartError(f"{where} must be an aggregator_server.strategies.registry.Strategy, not {loaded!r}")
        if entry.name in found:
            raise StartError(f"{where}: the name is taken; choose another")
        parts: dict[Part, str] = {
            "local": loaded.local,
            "aggregation": loaded.aggregation,
            "selection": loaded.selection,
        }
        for part, name in parts.items():
            if name not in METHODS[part]:
                raise StartError(f"{where} names the unknown {part} method {name!r}; known: {', '.join(METHODS[part])}")
        found[entry.name] = loaded
    return found


def strategy(name: str) -> Strategy:
    """Return a strategy.

    Raises:
        UnknownStrategyError: there is none of that name; says which there are.
        StartError: an installed package's strategy cannot be used.
    """
    known = strategies()
    if name not in known:
        raise UnknownStrategyError(f"unknown strategy {name!r}; known: {', '.join(sorted(known))}")
    return known[name]
