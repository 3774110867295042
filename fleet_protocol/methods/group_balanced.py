"""Group-balanced personalisation (Xu et al. 2025, section 3.2, algorithm 1): who is fine-tuned with whom, and how long.

Devices with about equally many clips form a group. Each group goes on training from the fleet's weights among itself,
the small-data groups longest, before every device fine-tunes what its group came to. The aggregator makes the groups;
a device does what ``local`` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleet_protocol.methods.setting import Setting, Value
from fleet_protocol.numbers.arrays import Doubles, Ints

# Algorithm 1: three groups, five rounds; the largest devices' group may do without.
GROUPS = {
    "groups": Setting(3, "groups of devices with about equally many clips", 1, 100),
    "most_rounds": Setting(5, "rounds within the group of the smallest devices", 0, 1_000),
    "least_rounds": Setting(0, "rounds within the group of the largest devices; the others lie between", 0, 1_000),
}


@dataclass(frozen=True)
class Schedule:
    """The groups of one phase of personalisation, in the order in which they train."""

    groups: tuple[tuple[str, ...], ...]  # Devices of each group, in alphabetical order
    rounds: tuple[int, ...]  # Number of rounds that each group trains among itself

    @property
    def sequence(self) -> tuple[int, ...]:
        """The group of every round, in order: a group is done with before the next one begins."""
        return tuple(index for index, count in enumerate(self.rounds) for _ in range(count))

    def group_of(self, device_id: str) -> int | None:
        """Return a device's group; None for one that joined later."""
        return next((index for index, members in enumerate(self.groups) if device_id in members), None)


def schedule(sizes: Mapping[str, float], settings: Mapping[str, Value]) -> Schedule:
    """Plan a phase. ``sizes``: D_k, every device's number of clips, above 0."""
    groups = group_by_size(sizes, int(settings["groups"]))
    most, least = int(settings["most_rounds"]), int(settings["least_rounds"])
    return Schedule(groups, rounds_per_group(len(groups), most, least))


def rounds_per_group(groups: int, most: int, least: int) -> tuple[int, ...]:
    """Return the rounds of each group: ``most`` for the smallest, ``least`` for the largest, a line in between."""
    steps = np.linspace(most, least, groups)
    return tuple(int(np.floor(step + 0.5)) for step in steps)


def group_by_size(sizes: Mapping[str, float], count: int) -> tuple[tuple[str, ...], ...]:
    """Cluster devices by the logarithm of their data size: natural breaks (Fisher 1958, Jenks 1967).

    That is k-means in one dimension solved exactly, so that nothing is random: the sum of squared distances to the
    groups' means is the smallest possible. The logarithm: 20 clips against 40 differ as 2,000 against 4,000 do. There
    are at most ``count`` groups, smallest data first; devices of equal size are always together.
    """
    values, member_of, devices = np.unique(list(sizes.values()), return_inverse=True, return_counts=True)
    starts = _breaks(np.log(values), devices.astype(np.float64), min(count, len(values)))
    group_of = np.searchsorted(starts, member_of, side="right") - 1
    return tuple(
        tuple(sorted(name for name, group in zip(sizes, group_of, strict=True) if group == index))
        for index in range(len(starts))
    )


def _breaks(x: Doubles, weights: Doubles, count: int) -> list[int]:
    """Return where each of ``count`` groups of ascending values begins, by dynamic programming over the last break."""
    n = len(x)
    zero = np.zeros(1)
    total, first, second = (np.concatenate([zero, np.cumsum(weights * x**power)]) for power in (0, 1, 2))

    def spread(begin: Ints, end: int) -> Doubles:
        """Sum of squared distances to the mean of values begin..end-1."""
        mass, moment = total[end] - total[begin], first[end] - first[begin]
        return np.asarray(second[end] - second[begin] - moment * moment / mass)

    cost = np.array([0.0] + [float(spread(np.zeros(1, np.int64), end)[0]) for end in range(1, n + 1)])
    last_break = np.zeros((count, n + 1), np.int64)
    for groups in range(1, count):
        better = np.full(n + 1, np.inf)
        for end in range(groups + 1, n + 1):
            begins = np.arange(groups, end)
            costs = cost[begins] + spread(begins, end)
            best = int(np.argmin(costs))
            better[end], last_break[groups, end] = costs[best], begins[best]
        cost = better
    starts, end = [0] * count, n
    for groups in range(count - 1, 0, -1):
        starts[groups] = end = int(last_break[groups, end])
    return starts
