"""What private rounds sum where networks are trained: changes of weights, or scores of the public recordings.

Each device counts alike: its number of clips is not told. A device without a class adds zeros to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.fixed_point import FixedPoint
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.secure_sums.masking import Words
from fleet_protocol.secure_sums.roster import largest_group

# Weight of a device that names the public recordings no better than chance. Where all owners of a class do so, their
# mean remains, as in the open method.
_LEAST_BETA = 2.0**-10
CHANGE = 64.0  # by which a weight moves in a round at most; what is beyond is cut


@dataclass(frozen=True)
class WeightLayout:
    """How changes of the shared model's weights travel. ``shapes``: of the weights by name, in their order."""

    shapes: Mapping[str, Sequence[int]]
    point: FixedPoint

    @classmethod
    def of(cls, plan: RoundPlan, shapes: Mapping[str, Sequence[int]]) -> WeightLayout:
        """Return that of a plan. Raises SecureSumError: no private round."""
        return cls(shapes, FixedPoint.for_sums(_addends(plan), CHANGE))

    @property
    def length(self) -> int:
        """Count of numbers of an upload."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def own(self, trained: Arrays, before: Arrays) -> Words:
        """Return what a device adds, uint32 [length], still without masks."""
        changes = [(trained[name].astype(np.float64) - before[name]).ravel() for name in self.shapes]
        return self.point.encode(np.clip(np.concatenate(changes), -CHANGE, CHANGE))

    def mean(self, words: Words, devices: int, before: Arrays) -> Arrays:
        """Return the mean weights of devices, float32 by name, from the sum of their changes, uint32 [length]."""
        changes, found, first = self.point.decode(words) / devices, {}, 0
        for name, shape in self.shapes.items():
            last = first + math.prod(shape)
            found[name] = (before[name] + changes[first:last].reshape(shape)).astype(np.float32)
            first = last
        return found


@dataclass(frozen=True)
class ScoreSums:
    """Sums over the devices that have a class, by class."""

    devices: Doubles  # how many have it, float64 [classes]
    betas: Doubles  # their weights, float64 [classes]
    scores: Doubles  # their weighted probabilities, float64 [samples, classes]


@dataclass(frozen=True)
class ScoreLayout:
    """How a device's probabilities of the public recordings travel, by class: 1, beta, and beta alpha p."""

    classes: int
    samples: int
    point: FixedPoint

    @classmethod
    def of(cls, plan: RoundPlan, classes: int, samples: int) -> ScoreLayout:
        """Return that of a plan. Raises SecureSumError: no private round."""
        return cls(classes, samples, FixedPoint.for_sums(_addends(plan), 1.0))

    @property
    def length(self) -> int:
        """Count of numbers of an upload."""
        return self.classes * (2 + self.samples)

    def own(self, columns: Sequence[int], beta: float, scores: Floats) -> Words:
        """Return what a device adds, uint32 [length], still without masks.

        ``columns``: of its classes; ``beta``: its weight, 0 to 1; ``scores``: alpha p, float32 [samples, its classes],
        0 to 1.
        """
        table = np.zeros((2 + self.samples, self.classes))
        beta = max(beta, _LEAST_BETA)
        table[0, columns], table[1, columns] = 1.0, beta
        table[2:, columns] = beta * np.clip(scores.astype(np.float64), 0.0, 1.0)
        return self.point.encode(table.ravel())

    def read(self, words: Words) -> ScoreSums:
        """Return a sum, uint32 [length]."""
        table = self.point.decode(words).reshape(2 + self.samples, self.classes)
        return ScoreSums(table[0], table[1], table[2:])


def _addends(plan: RoundPlan) -> int:
    if plan.private is None:
        raise SecureSumError("the round is not private")
    return largest_group(plan.private.group_size)
