"""How loud the background of an input is, and how far a sound stands out of it."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

# Digital silence is no quieter than this: else an input that gives some would seem the best ear.
_LOWEST_DB = -100.0
# Half a minute of steps of so many seconds, and which share of them is quieter than the background.
_STEPS, _STEP_S, _QUIETER = 120, 0.25, 0.2


class Background:
    """The levels of one input."""

    def __init__(self) -> None:
        self._levels_db: deque[float] = deque(maxlen=_STEPS)
        self._energy = self._seconds = 0.0

    def take(self, level_db: float, seconds: float) -> None:
        """Take the level, dB full scale, of so many seconds."""
        self._energy += seconds * 10.0 ** (max(level_db, _LOWEST_DB) / 10.0)
        self._seconds += seconds
        if self._seconds >= _STEP_S:
            self._levels_db.append(10.0 * math.log10(self._energy / self._seconds))
            self._energy = self._seconds = 0.0

    def snr_db(self, level_db: float) -> float:
        """Return how far a level, dB full scale, is above the background, dB; 0 before any level was taken."""
        if not self._levels_db:
            return 0.0
        return max(level_db, _LOWEST_DB) - float(np.quantile(self._levels_db, _QUIETER))
