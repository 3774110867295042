"""The settings of a method: their defaults, types and ranges."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fleet_protocol.errors import PlanError

Value = float | int | str | bool


@dataclass(frozen=True)
class Setting:
    """One setting of a method."""

    default: Value  # Value where a plan does not say; its type is the setting's type
    about: str  # What it does, with its unit, in plain words
    low: float | None = None  # Smallest value allowed; None where there is no limit
    high: float | None = None  # Largest value allowed; None where there is no limit
    options: tuple[str, ...] = ()  # Values allowed; empty where low and high say it


Settings = Mapping[str, Setting]


def complete(method: str, known: Settings, given: Mapping[str, Value]) -> dict[str, Value]:
    """Check the settings given for a method, such as ``selection method 'uniform'``, and add the others' defaults.

    Raises PlanError: a setting is unknown, of a wrong type or out of range; says what is allowed.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise PlanError(f"{method} has no setting {unknown[0]!r}; known: {', '.join(known) or 'none at all'}")
    return {name: _value(given, name, setting) for name, setting in known.items()}


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
