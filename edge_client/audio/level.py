"""How loud sound is, in dB of full scale: a sine that just reaches 1 has a peak of 0 dB and an RMS of -3 dB."""

from __future__ import annotations

import math

import numpy as np

from edge_client.errors import TakeError
from fleet_protocol.numbers.arrays import Doubles, Floats

# What exact silence counts as; 16 bits end at -90 dB.
FLOOR_DB = -120.0
# A quiet room leaves even a poor microphone's own noise above this.
TOO_QUIET_DB = -80.0
FRAME_S = 0.01
# Seconds in which a new offset is taken up: far slower than any sound (a high pass at 0.16 Hz).
_FOLLOWED_S = 1.0
# Resampling rounds off the flat tops of a clipped sound, so they no longer reach full scale.
_FULL_SCALE = 0.98
_MAX_CLIPPED = 0.002


def rms_dbfs(samples: Floats) -> float:
    """Return the root mean square of float32 [samples], in dB of full scale."""
    amplitude = math.sqrt(float(np.dot(samples, samples)) / len(samples)) if len(samples) else 0.0
    return max(FLOOR_DB, 20 * math.log10(amplitude)) if amplitude > 0 else FLOOR_DB


def frame_levels_dbfs(samples: Floats, frame_samples: int) -> Doubles:
    """Return the level, dB full scale, of every whole frame of float32 [samples], less its mean: float64 [frames]."""
    frames = samples[: len(samples) // frame_samples * frame_samples].reshape(-1, frame_samples).astype(np.float64)
    levels: Doubles = 20.0 * np.log10(np.maximum(frames.std(axis=1), 10 ** (FLOOR_DB / 20)))
    return levels


def levels_db(samples: Floats, rate_hz: int) -> Doubles:
    """Return the level of every 10 ms, in dB full scale, at least -120; a constant offset does not count."""
    return frame_levels_dbfs(samples, round(FRAME_S * rate_hz))


def require_unclipped(samples: Floats) -> None:
    """Refuse float32 [samples] whose loud parts were cut off: nobody hears the sound itself there. Raises TakeError."""
    clipped = float((np.abs(samples) >= _FULL_SCALE).mean())
    if clipped > _MAX_CLIPPED:
        raise TakeError(f"too loud: {100 * clipped:.1f} % of it is clipped; move away, or lower the input's volume")


class OffsetFilter:
    """Takes a stream's offset away, block by block: its exponentially weighted mean, without a step between blocks.

    I2S microphones have some per cents of full scale of it. It is no sound, but it would count as level, and as low
    tones in every window.
    """

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
