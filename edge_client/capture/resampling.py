"""Band-limited resampling by a rational factor, in NumPy alone.

A polyphase filter bank (Crochiere & Rabiner 1983) with a Kaiser-windowed sinc: everything up to 0.89 of the lower
rate's half passes unchanged within 0.01 dB, everything beyond that half is damped by at least 80 dB.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from edge_client.errors import RecordingError

_ATTENUATION_DB = 80.0
# Zero crossings of the sinc on each side; the transition band shrinks as they grow.
_CROSSINGS = 48
# Every usual pair of rates is met exactly; odd ones within half a cent, so that no filter bank can fill the memory.
_LARGEST_DOWN = 2_000
_RATES_HZ = (1_000, 768_000)


def resample(samples: NDArray[np.float32], from_hz: int, to_hz: int) -> NDArray[np.float32]:
    """Convert a recording to another sample rate, without shifting it in time.

    Args:
        samples: float32 [samples]; beyond its ends it counts as silent.
        from_hz: its rate.
        to_hz: the rate wanted.

    Returns:
        float32 [samples * to_hz / from_hz, rounded up].

    Raises:
        RecordingError: a rate is outside 1..768 kHz.
    """
    for rate in (from_hz, to_hz):
        if not _RATES_HZ[0] <= rate <= _RATES_HZ[1]:
            raise RecordingError(f"a sample rate of {rate} Hz is outside {_RATES_HZ[0]} to {_RATES_HZ[1]} Hz")
    up, down = Fraction(to_hz, from_hz).limit_denominator(_LARGEST_DOWN).as_integer_ratio()
    if up == down or not len(samples):
        return samples
    phases, reach = _filter_bank(up, down)
    length = -(-len(samples) * up // down)
    # Output n lies at input n * down / up: at whole sample (n * down) // up, and phase (n * down) % up behind it.
    padded = np.zeros(len(samples) + 2 * reach + down, np.float32)
    padded[reach : reach + len(samples)] = samples
    resampled = np.empty(length, np.float32)
    for first in range(min(up, length)):
        count = -(-(length - first) // up)
        start, phase = divmod(first * down, up)
        windows: NDArray[np.float32] = np.ndarray(
            (count, 2 * reach), np.float32, padded, 4 * (start + 1), (4 * down, 4)
        )
        np.einsum("nk,k->n", windows, phases[phase], out=resampled[first::up])
    return resampled


@functools.lru_cache(maxsize=8)
def _filter_bank(up: int, down: int) -> tuple[NDArray[np.float32], int]:
    """Return (float32 [up, 2 * reach], reach): the filter of each phase, over input samples -reach < t <= reach.

    Times are counted in input samples; the cut-off sits half a transition band below half of the lower rate.
    """
    lower = min(1.0, up / down)  # the lower rate, in units of the input's
    transition = (_ATTENUATION_DB - 7.95) / (2.285 * 2 * np.pi * 2 * _CROSSINGS)  # Kaiser 1974, of the lower rate
    cutoff = lower * (0.5 - transition / 2)
    half_width = _CROSSINGS / lower
    reach = math.ceil(half_width)
    time = np.arange(1 - reach, reach + 1)[None, :] - (np.arange(up) / up)[:, None]
    inside = np.sqrt(np.maximum(0.0, 1.0 - (time / half_width) ** 2))
    beta = 0.1102 * (_ATTENUATION_DB - 8.7)
    window = np.where(np.abs(time) <= half_width, np.i0(beta * inside) / np.i0(beta), 0.0)
    bank = (2 * cutoff * np.sinc(2 * cutoff * time) * window).astype(np.float32)
    bank.setflags(write=False)
    return bank, reach
