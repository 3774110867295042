"""A microphone's constant offset: I2S microphones have some per cents of full scale, and nobody hears it.

It is no sound, but it would count as level, and as low tones in every window.
"""

from __future__ import annotations

import math

import numpy as np

from fleet_protocol.numbers.arrays import Floats

# Seconds in which a new offset is taken up: far slower than any sound (a high pass at 0.16 Hz).
_FOLLOWED_S = 1.0


class OffsetFilter:
    """Takes a stream's offset away, block by block: its exponentially weighted mean, without a step between blocks."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._rate_hz = sample_rate_hz
        self._offset: float | None = None

    def push(self, samples: Floats) -> Floats:
        """Return the next float32 [any] less the offset; that of the first block is its mean."""
        if not len(samples):
            return samples
        mean = float(samples.mean(dtype=np.float64))
        before = mean if self._offset is None else self._offset
        share = 1 - math.exp(-len(samples) / (_FOLLOWED_S * self._rate_hz))
        self._offset = before + share * (mean - before)
        return samples - np.linspace(before, self._offset, len(samples), dtype=np.float32)
