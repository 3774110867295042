"""The table that private rounds sum: it has every class of the fleet, whether a device has it or not.

Of each class there is a row for its sound and, where the plan asks for the order, one for each window before it: number
of devices, their weight, and their weighted embeddings. So a sum holds all that a mean needs, and a device without a
class sends zeros, which look like anybody's numbers under the masks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import SecureSumError
from fleet_protocol.limits import STATES_BEFORE, UPDATE_BYTES
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.fixed_point import FixedPoint
from fleet_protocol.secure_sums.roster import largest_group

# Beyond this an embedding's numbers are cut: those of the front ends that come with Auricle stay below 60.
RANGE = 64.0
MASKED = "masked"  # Name of the only array of a masked upload, uint32 [numbers]
MOST_NUMBERS = UPDATE_BYTES // 4 - 2**16  # beside the document


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

    def own(self, prototypes: Mapping[int, tuple[Sequence[Floats], int, float]]) -> NDArray[np.uint32]:
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

    def read(self, words: NDArray[np.uint32]) -> ClassSums:
        """Return a sum, uint32 [length], without masks. Raises SecureSumError: it has another length."""
        if words.shape != (self.length,):
            raise SecureSumError(f"a sum of this round has {self.length} numbers, not {words.shape}")
        numbers = self.point.decode(words)
        table = numbers[: math.prod(self._table)].reshape(self._table)
        lengths = numbers[table.size :] if self.windows else np.zeros(self.classes)
        return ClassSums(table[..., 0], table[..., 1], table[..., 2:], lengths)
