"""What a selection is, and what it is given: plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleet_protocol.arrays import Doubles
from fleet_protocol.setting import Setting, Settings, Value

SEEN_WITHIN = Setting(
    0.0, "seconds since a device was last heard of after which it is not selected; 0: no limit", 0.0, 3.2e7
)
FRACTION = Setting(0.2, "share of the devices that take part, at least one", 0.0, 1.0)


@dataclass(frozen=True)
class Candidate:
    """A device that could take part.

    Attributes:
        device_id: Identifier; the order in which devices are given never matters.
        clips: D_k, data size as last reported; 0: not reported.
        unseen_s: Seconds since the device was last heard of.
    """

    device_id: str
    clips: int = 0
    unseen_s: float = 0.0


@dataclass(frozen=True)
class History:
    """The finished rounds before this one.

    Attributes:
        rounds: Number r of these rounds.
        losses: Training losses, oldest first; rounds whose devices reported none are left out.
    """

    rounds: int = 0
    losses: tuple[float, ...] = ()


@dataclass(frozen=True)
class Selection:
    """A way to select a round's devices.

    Attributes:
        name: Name in plans.
        settings: Settings that a plan can give it. ``seen_within_s`` and ``fraction`` (the share of the devices that
            take part; 1 without it) are handled for every selection that has them.
        probabilities: (float64 [devices] data sizes D_k, all above 0; the rounds so far; values of the settings) ->
            P_k, float64 [devices], above 0, of any sum. Pure: the same inputs give the same devices.
        aliases: Former names, which are still accepted.
        about: Who takes part, in plain words, for people who choose.
    """

    name: str
    settings: Settings
    probabilities: Callable[[Doubles, History, Mapping[str, Value]], Doubles]
    aliases: tuple[str, ...] = ()
    about: str = ""
