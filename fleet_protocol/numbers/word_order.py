"""What windows before the newest one hold of long words, as it travels in rounds of ``prototypes`` (docs/methods.md).

A window holds a second, so the newest one of a phrase holds its end alone. A device hears the phrase by the windows
half a second before it, a second, and so on, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import TensorError
from fleet_protocol.limits import STATES_BEFORE, WORD_S
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays, require

ORDER_ARRAYS = ("before", "before_states", "before_lengths")


@dataclass(frozen=True)
class WordOrder:
    """Earlier windows of words, a word after the other; a short word and a sound have none."""

    states: Ints  # How many windows each word has, half a second older each, int64 [words]
    lengths: Floats  # Of each word, s, float32 [words]; 0 without a window
    means: Floats  # Mean embeddings, those of a word together, the newest first, float32 [all states, frames, numbers]

    @classmethod
    def of(cls, words: Sequence[tuple[Floats, float]], shape: tuple[int, ...]) -> WordOrder:
        """Put together words' windows, float32 [states, frames, numbers], and lengths, s; ``shape``: of a window."""
        return cls(
            np.array([len(rows) for rows, _ in words], np.int64),
            np.array([length_s if len(rows) else 0.0 for rows, length_s in words], np.float32),
            np.concatenate([np.zeros((0, *shape), np.float32), *(rows for rows, _ in words)]),
        )

    @classmethod
    def none(cls, words: int, shape: tuple[int, ...]) -> WordOrder:
        """Return that of words without one."""
        return cls(np.zeros(words, np.int64), np.zeros(words, np.float32), np.zeros((0, *shape), np.float32))

    @cached_property
    def starts(self) -> Ints:
        """Row of each word's newest window, int64 [words]."""
        return np.cumsum(self.states) - self.states

    def word(self, index: int) -> tuple[Floats, float]:
        """Return a word's windows, float32 [states, frames, numbers], and its length, s."""
        start = int(self.starts[index])
        return self.means[start : start + int(self.states[index])], float(self.lengths[index])

    def words(self, chosen: NDArray[np.intp]) -> WordOrder:
        """Return that of some words, in their order."""
        states = self.states[chosen]
        first = np.repeat(self.starts[chosen] - (np.cumsum(states) - states), states)
        return WordOrder(states, self.lengths[chosen], self.means[first + np.arange(len(first))])

    @property
    def arrays(self) -> Arrays:
        """As they travel, all float32; none where no word has a window."""
        if not len(self.means):
            return {}
        return dict(zip(ORDER_ARRAYS, (self.means, self.states.astype(np.float32), self.lengths), strict=True))

    @classmethod
    def read(cls, arrays: Arrays, words: int, shape: tuple[int, ...]) -> WordOrder:
        """Read what :attr:`arrays` returned; who does not know of it sends none.

        Raises TensorError: one is missing, does not fit the others, or is none that a device makes.
        """
        if not any(name in arrays for name in ORDER_ARRAYS):
            return cls.none(words, shape)
        means = require(arrays, "before", (None, *shape))
        states = require(arrays, "before_states", (words,))
        lengths = require(arrays, "before_lengths", (words,))
        if not np.isin(states, np.arange(STATES_BEFORE + 1)).all():
            raise TensorError(f"array 'before_states' holds other numbers of windows than 0 to {STATES_BEFORE}")
        if int(states.sum()) != len(means):
            raise TensorError(f"array 'before' has {len(means)} windows, and 'before_states' says {states.sum():g}")
        if ((lengths > 0) != (states > 0)).any() or (lengths < 0).any() or (lengths > WORD_S).any():
            raise TensorError(
                f"array 'before_lengths' holds others than above 0 to {WORD_S:g} s for a word with windows, else 0"
            )
        return cls(states.astype(np.int64), lengths, means)
