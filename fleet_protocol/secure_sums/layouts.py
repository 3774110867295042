"""What private rounds sum, and how it travels: of prototypes, of changes of weights, or of scores of public recordings.

A table of prototypes has every class of the fleet, whether a device has it or not: a row for its sound and, where the
plan asks for the order, one for each window before it, with the number of devices, their weight, and their weighted
embeddings. So a sum holds all that a mean needs, and a device without a class sends zeros, which look like anybody's
numbers under the masks. Where networks are trained each device counts alike: its number of clips is not told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.errors import SecureSumError
from fleet_protocol.limits import STATES_BEFORE, UPDATE_BYTES
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.fixed_point import FixedPoint
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.secure_sums.masking import Words
from fleet_protocol.secure_sums.roster import largest_group

# Beyond this an embedding's numbers are cut: those of the front ends that come with Auricle stay below 60.
RANGE = 64.0
MASKED = "masked"  # Name of the only array of a masked upload, uint32 [numbers]
MOST_NUMBERS = UPDATE_BYTES // 4 - 2**16  # beside the document

# Weight of a device that names the public recordings no better than chance. Where all owners of a class do so, their
# mean remains, as in the open method.
_LEAST_BETA = 2.0**-10
CHANGE = 64.0  # by which a weight moves in a round at most; what is beyond is cut


@dataclass(frozen=True)
class ClassSums:
    """Sums over devices, of classes in the order of the work; windows before a sound the newest first."""

    devices: Doubles  # float64 [classes, 1 + windows]
    weights: Doubles  # float64 [classes, 1 + windows]
    numbers: Doubles  # float64 [classes, 1 + windows, numbers of a window]
    lengths: Doubles  # s, float64 [classes]; 0 without windows


@dataclass(frozen=True)
class SumLayout:
    """How a table of a round travels."""

    classes: int
    windows: int  # before a sound
    shape: tuple[int, ...]  # of an embedding
    vote_cap: int  # Most that a device weighs in a class
    point: FixedPoint

    @classmethod
    def of(cls, plan: RoundPlan, classes: int, shape: tuple[int, ...]) -> SumLayout:
        """Return that of a plan. Raises SecureSumError: no private round, or a table too large for an upload."""
        settings = plan.aggregation.settings
        cap, order = settings.get("vote_cap"), settings.get("order", False)
        if plan.private is None or type(cap) is not int or cap < 1 or type(order) is not bool:
            raise SecureSumError(f"a private round needs a vote_cap of at least 1, and has {cap!r}"[:300])
        point = FixedPoint.for_sums(largest_group(plan.private.group_size), cap * RANGE)
        found = cls(classes, STATES_BEFORE if order else 0, shape, cap, point)
        if found.length > MOST_NUMBERS:
            raise SecureSumError(f"{classes} classes need {found.length} numbers; {MOST_NUMBERS} fit into an upload")
        return found

    @property
    def _table(self) -> tuple[int, int, int]:
        return self.classes, 1 + self.windows, 2 + math.prod(self.shape)

    @property
    def length(self) -> int:
        """Count of numbers of an upload."""
        return math.prod(self._table) + (self.classes if self.windows else 0)

    def own(self, prototypes: Mapping[int, tuple[Sequence[Floats], int, float]]) -> Words:
        """Return what a device adds, uint32 [length], still without masks.

        ``prototypes``: by class, from 0: mean embeddings of its sound and then of windows before it; number of clips;
        the word's length, s.
        """
        table, lengths = np.zeros(self._table), np.zeros(self.classes if self.windows else 0)
        for row, (means, clips, length_s) in prototypes.items():
            weight = min(clips, self.vote_cap)
            for state, mean in enumerate(means[: 1 + self.windows]):
                table[row, state] = [1, weight, *(weight * np.clip(mean.ravel().astype(np.float64), -RANGE, RANGE))]
            if self.windows and len(means) > 1:
                lengths[row] = weight * length_s
        return self.point.encode(np.concatenate([table.ravel(), lengths]))

    def read(self, words: Words) -> ClassSums:
        """Return a sum, uint32 [length], without masks. Raises SecureSumError: it has another length."""
        if words.shape != (self.length,):
            raise SecureSumError(f"a sum of this round has {self.length} numbers, not {words.shape}")
        numbers = self.point.decode(words)
        table = numbers[: math.prod(self._table)].reshape(self._table)
        lengths = numbers[table.size :] if self.windows else np.zeros(self.classes)
        return ClassSums(table[..., 0], table[..., 1], table[..., 2:], lengths)


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
