"""One setting of a method: its default, type and range."""

from __future__ import annotations

from dataclasses import dataclass

Value = float | int | str | bool


@dataclass(frozen=True)
class Setting:
    """One setting of a method.

    Attributes:
        default: used where a plan does not say; its type is the setting's type.
        about: what it does, with its unit.
        low: smallest value allowed; None where there is no limit.
        high: largest value allowed; None where there is no limit.
        options: the values allowed; empty where low and high say it.
    """

    default: Value
    about: str
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()
