"""How loud sound is, in dB of full scale: a sine that just reaches 1 has a peak of 0 dB and an RMS of -3 dB."""

import math

import numpy as np

from fleet_protocol.numbers.arrays import Doubles, Floats

# What exact silence counts as; 16 bits end at -90 dB.
FLOOR_DB = -120.0
# A quiet room leaves even a poor microphone's own noise above this.
TOO_QUIET_DB = -80.0
FRAME_S = 0.01


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
