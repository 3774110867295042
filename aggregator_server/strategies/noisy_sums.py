"""Sums of a private round with noise: what they can say, and which classes stand out of the noise."""

from collections.abc import Sequence

import numpy as np

from fleet_protocol.numbers.arrays import Doubles
from fleet_protocol.secure_sums.bounded_sums import COUNT, STANDS_OUT, NoisySums
from fleet_protocol.secure_sums.class_sums import ClassSums

_FARTHEST = 8.0  # standard deviations: of a million numbers none lies farther by chance


def impossible(table: NoisySums, devices: int, deviation: float) -> str | None:
    """Return what no sum of so many honest devices says; None where it may be one. ``deviation``: of its noise."""
    slack = _FARTHEST * deviation
    if (np.abs(table.counts - devices / 2) > devices / 2 + slack / COUNT).any():
        return "its sum says a number of devices that it has not, with any noise"
    if (np.abs(table.directions) > devices + slack).any():
        return "its sum says numbers that its devices cannot add, with any noise"
    return None


def heard(tables: Sequence[NoisySums], deviations: Sequence[float]) -> list[ClassSums]:
    """Return groups' sums as those of a round without noise, with the classes alone that stand out of all noise.

    ``deviations``: of the noise of each. A group weighs as all do, by the mean count: its own is mostly noise where
    groups are small.
    """
    counts: Doubles = np.mean([table.counts for table in tables], axis=0)
    there = counts * len(tables) > STANDS_OUT * float(np.linalg.norm(deviations)) / COUNT
    has, weights = there.astype(np.float64)[:, None], np.where(there, counts, 0.0)[:, None]
    return [ClassSums(has, weights, table.directions[:, None], np.zeros(len(counts))) for table in tables]
