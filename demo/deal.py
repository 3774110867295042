"""Deals labels to three devices in overlapping runs, as in Gudur & Perepu 2021, table 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demo import DemoError

DEVICES = 3
KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
SOUNDS = (
    *("air_conditioner", "car_horn", "children_playing", "dog_bark", "drilling", "engine_idling", "gun_shot"),
    *("jackhammer", "siren", "street_music"),
)


@dataclass(frozen=True)
class PaperSizes:
    """Clips of a label in the paper.

    Attributes:
        public: Clips in the public set.
        per_round: Smallest and largest number in one round of one device.
        arrivals: Clips of a new sound that a device gets at first, and later.
    """

    public: int
    per_round: tuple[int, int]
    arrivals: tuple[int, int]


@dataclass(frozen=True)
class Deal:
    """Who knows what.

    Attributes:
        known: Labels of the public set, in the paper's order or the alphabet's.
        new: Labels that devices meet later: the first by devices 1 and 2, the second by device 2.
        devices: Labels of each device that it knows from the start.
    """

    known: tuple[str, ...]
    new: tuple[str, str]
    devices: tuple[tuple[str, ...], ...]

    @property
    def paper(self) -> PaperSizes:
        """The paper's sizes for recordings of this kind."""
        if set(self.known) <= set(SOUNDS):
            return PaperSizes(50, (40, 50), (50, 50))
        return PaperSizes(300, (200, 300), (400, 500))

    def owners(self, label: str) -> tuple[int, ...]:
        """Return the devices (0, 1, ...) that know a label from the start, or meet it later."""
        if label in self.new:
            return (0, 1) if label == self.new[0] else (1,)
        return tuple(device for device, labels in enumerate(self.devices) if label in labels)


def deal(labels: Sequence[str], new: Sequence[str] | None = None) -> Deal:
    """Deal labels to the devices in contiguous runs of which neighbours overlap.

    The paper's keywords overlap by two labels, its sounds by one; other labels as the keywords do. ``new`` are the two
    that devices meet later; None: the last two.

    Raises:
        DemoError: fewer than four labels, or two new ones are not among them.
    """
    present = set(labels)
    if len(present) < 4:
        raise DemoError(
            f"at least 4 labels are needed, not {len(present)} ({', '.join(sorted(present)) or 'none'}); "
            "a label is a folder of recordings"
        )
    paper = next((known for known in (KEYWORDS, SOUNDS) if present <= set(known)), None)
    order = [label for label in paper or sorted(present) if label in present]
    chosen = tuple(order[-2:] if new is None else new)
    if len(chosen) != 2 or len(set(chosen) & present) != 2:
        raise DemoError(
            f"two different labels must be new, not {', '.join(chosen) or 'none'}; present: {', '.join(order)}"
        )
    known = tuple(label for label in order if label not in chosen)
    shared = 1 if paper is SOUNDS and len(known) >= 4 else 2
    places = len(known) + shared * (DEVICES - 1)
    runs: list[tuple[str, ...]] = []
    start = 0
    for device in range(DEVICES):
        end = start + (places + device) // DEVICES
        runs.append(known[start:end])
        start = end - shared
    return Deal(known, (chosen[0], chosen[1]), tuple(runs))
