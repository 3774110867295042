"""The table that private rounds with noise sum: what one device adds is bounded, and noise hides it.

Of each class there are a count and a direction: the device's mean embedding, whitened by the statistics that come with
the front end, of length 1. A device adds at most ten classes. So what it adds is at most L = ``LENGTH`` long, and noise
of the standard deviation z L in a group's sum hides the whole device (docs/private-rounds.md, "Noise").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import Scatter
from fleet_protocol.numbers.fixed_point import FixedPoint
from fleet_protocol.secure_sums.discrete_gaussian import discrete_gaussian
from fleet_protocol.secure_sums.layouts import MOST_NUMBERS
from fleet_protocol.secure_sums.masking import Words
from fleet_protocol.secure_sums.roster import largest_group, threshold_of

CLASSES = 10
"""Classes of which a device adds something, at most: those with most clips."""
COUNT = 0.5
"""What a device adds to the count of a class: its share of the noise is its share of the length."""
LENGTH = math.sqrt(CLASSES * (1 + COUNT**2))
LEAST_NOISE, MOST_NOISE = 0.05, 1_000.0
STANDS_OUT = 3.0
"""Standard deviations of the noise from which a count says that there is a class."""
_FINEST = 2**10  # units: the least standard deviation of a device's share, with which rounding does not matter


@dataclass(frozen=True)
class NoisySums:
    """Sums of a group with its noise, of classes in the order of the work."""

    counts: Doubles  # of devices, float64 [classes]
    directions: Doubles  # float64 [classes, numbers]


@dataclass(frozen=True)
class BoundedLayout:
    """How a table of a round with noise travels."""

    classes: int
    numbers: int  # of an embedding
    deviation: float  # of the noise in a group's sum of the fewest devices
    point: FixedPoint

    @classmethod
    def of(cls, plan: RoundPlan, classes: int, shape: tuple[int, ...]) -> BoundedLayout:
        """Return that of a plan. Raises SecureSumError: it has no noise, or the table is too large for an upload."""
        private = plan.private
        if private is None or not LEAST_NOISE <= private.noise <= MOST_NOISE:
            said = None if private is None else private.noise
            raise SecureSumError(f"the noise of a private round is from {LEAST_NOISE} to {MOST_NOISE:g}, not {said!r}")
        deviation = private.noise * LENGTH
        least = deviation / math.sqrt(threshold_of(largest_group(private.group_size)))
        found = cls(classes, math.prod(shape), deviation, FixedPoint(math.ceil(math.log2(_FINEST / least))))
        if found.length > MOST_NUMBERS:
            raise SecureSumError(f"{classes} classes need {found.length} numbers; {MOST_NUMBERS} fit into an upload")
        return found

    @property
    def length(self) -> int:
        """Count of numbers of an upload."""
        return self.classes * (1 + self.numbers)

    def own(self, directions: Mapping[int, tuple[Doubles, int]]) -> Words:
        """Return what a device adds, uint32 [length], still without noise and masks.

        ``directions``: by class, from 0: float64 [numbers], of length 1; number of clips. The ten with most clips are
        added. Raises SecureSumError: it would be longer than :data:`LENGTH`.
        """
        table = np.zeros((self.classes, 1 + self.numbers))
        for row in sorted(directions, key=lambda row: (-directions[row][1], row))[:CLASSES]:
            table[row] = [COUNT, *directions[row][0]]
        # Towards 0, so that rounding makes nothing longer.
        whole = np.trunc(np.ldexp(table.ravel(), self.point.bits)).astype(np.int64)
        if int(whole @ whole) > math.ldexp(LENGTH**2, 2 * self.point.bits):
            raise SecureSumError(f"what this device would add is longer than {LENGTH:.3f}")
        return np.asarray(whole.astype(np.uint32))

    def noise(self, fewest: int, key: bytes) -> Words:
        """Return a device's share of the noise, uint32 [length]; ``fewest``: devices of which a sum may be."""
        variance = math.ceil(math.ldexp(self.deviation**2, 2 * self.point.bits) / fewest)
        return discrete_gaussian(variance, self.length, key).astype(np.uint32)

    def deviation_of(self, devices: int, fewest: int) -> float:
        """Return the standard deviation of the noise in a sum of so many devices."""
        return self.deviation * math.sqrt(devices / fewest)

    def read(self, words: Words) -> NoisySums:
        """Return a sum, uint32 [length], without masks. Raises SecureSumError: it has another length."""
        if words.shape != (self.length,):
            raise SecureSumError(f"a sum of this round has {self.length} numbers, not {words.shape}")
        table = self.point.decode(words).reshape(self.classes, 1 + self.numbers)
        return NoisySums(table[:, 0] / COUNT, table[:, 1:])


def drowns(noise: float, devices: int, groups: int) -> bool:
    """Tell whether even a class that all of so many devices have would not stand out of the noise of their groups."""
    return COUNT * devices <= STANDS_OUT * noise * LENGTH * math.sqrt(1.5 * groups)


def directions_of(statistics: Scatter, means: Floats) -> Doubles:
    """Return whitened directions of length 1, float64 [n, numbers], of embeddings, float32 [n, numbers]."""
    return Scatter.whitened(statistics, means)  # of two networks too as one: it can be undone


def means_of(statistics: Scatter, directions: Doubles) -> Floats:
    """Return embeddings in such directions, float32 [n, numbers], as far from the centre as the front end's words."""
    lengths = np.linalg.norm((statistics.means - statistics.centre) @ statistics.whitening, axis=1)
    units = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-9)
    return np.asarray(
        statistics.centre + float(np.median(lengths)) * np.linalg.solve(statistics.whitening.T, units.T).T, np.float32
    )
