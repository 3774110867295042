"""What the parts of a round plan can be set to: one table that the aggregator and the devices share.

A plan names a method for each part (architecture decision 4). :func:`complete` checks the settings given and adds
the defaults of the others, so that a device reads every setting from the plan and knows no defaults of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from fleet_protocol.aggregation_methods import AGGREGATION
from fleet_protocol.errors import PlanError
from fleet_protocol.local_methods import LOCAL
from fleet_protocol.messages import Choice
from fleet_protocol.setting import Setting, Value

__all__ = ["METHODS", "Part", "Setting", "Value", "complete"]

Part = Literal["local", "aggregation", "selection", "personalisation"]

_SEEN_WITHIN = Setting(
    0.0, "seconds since a device was last heard of after which it is not selected; 0: no limit", 0.0, 3.2e7
)
_FRACTION = Setting(0.2, "share of the devices that take part, at least one", 0.0, 1.0)

# Xu et al. 2025: three of ten devices a round; R is "near the first convergence", or where the loss stops falling.
_DYNAMIC: dict[str, Setting] = {
    "fraction": Setting(0.3, "share of the devices that take part, at least one", 0.0, 1.0),
    "switch_round": Setting(0, "R: done rounds after which much data counts for a device, not against it; 0: found "
                            "from the loss", 0, 1_000_000),
    "patience": Setting(3, "rounds without a new lowest loss after which R is found", 1, 10_000),
    "seen_within_s": _SEEN_WITHIN,
}  # fmt: skip

_FINE_TUNING: dict[str, Setting] = {
    "epochs": Setting(10, "passes of the local fine-tuning over the device's clips", 1, 10_000),
    "learning_rate": Setting(0.005, "of the local fine-tuning", 1e-8, 10.0),
    "momentum": Setting(0.9, "of the local fine-tuning", 0.0, 0.9999),
    "held_out": Setting(0.2, "share of the device's clips that it never trains on and judges its models by", 0.01, 0.5),
}
# Xu et al. 2025, algorithm 1: three groups, five rounds; the largest devices' group may do without.
_GROUP_BALANCED: dict[str, Setting] = {
    "groups": Setting(3, "groups of devices with about equally many clips", 1, 100),
    "most_rounds": Setting(5, "rounds within the group of the smallest devices", 0, 1_000),
    "least_rounds": Setting(0, "rounds within the group of the largest devices; the others lie between", 0, 1_000),
} | _FINE_TUNING

METHODS: dict[Part, dict[str, dict[str, Setting]]] = {
    "local": LOCAL,
    "aggregation": AGGREGATION,
    "selection": {
        "all": {"seen_within_s": _SEEN_WITHIN},
        "uniform": {"fraction": _FRACTION, "seen_within_s": _SEEN_WITHIN},
        "size_proportional": {"fraction": _FRACTION, "seen_within_s": _SEEN_WITHIN},
        "dynamic": _DYNAMIC,
    },
    "personalisation": {"none": {}, "local": _FINE_TUNING, "group_balanced": _GROUP_BALANCED},
}


def complete(part: Part, choice: Choice) -> Choice:
    """Check a part of a plan and add the defaults of the settings that it leaves out.

    Raises:
        PlanError: unknown method, unknown setting, a value of a wrong type or out of range; says what is allowed.
    """
    methods = METHODS[part]
    if choice.name not in methods:
        raise PlanError(f"unknown {part} method {choice.name!r}; known: {', '.join(sorted(methods))}")
    known = methods[choice.name]
    unknown = sorted(set(choice.settings) - set(known))
    if unknown:
        raise PlanError(
            f"{part} method {choice.name!r} has no setting {unknown[0]!r}; known: {', '.join(known) or 'none at all'}"
        )
    return Choice(choice.name, {name: _value(choice.settings, name, setting) for name, setting in known.items()})


def _value(given: Mapping[str, Value], name: str, setting: Setting) -> Value:
    value = given.get(name, setting.default)
    kind = type(setting.default)
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise PlanError(f"setting {name!r} ({setting.about}) must be of type {kind.__name__}, not {value!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low = -math.inf if setting.low is None else setting.low
        high = math.inf if setting.high is None else setting.high
        if not low <= value <= high:  # holds for NaN too, and for integers that no float can hold
            raise PlanError(f"setting {name!r} ({setting.about}) must be from {low:g} to {high:g}, not {value!r}")
    if setting.options and value not in setting.options:
        raise PlanError(f"setting {name!r} ({setting.about}) must be {', '.join(setting.options)}, not {value!r}")
    return float(value) if kind is float else value
