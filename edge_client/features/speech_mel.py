"""The mel features that Google's speech embedding takes, in NumPy: those of the package's ``melspectrogram.tflite``.

Powers of periodic Hann windows in triangular filters on Slaney's mel scale (Slaney 1998, Auditory Toolbox), each
filter divided by its width; in dB, none more than 80 dB below the loudest of its part of eight frames; then
dB / 10 + 2. The eight frames of a part are those that the network takes at a time.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fleet_protocol.arrays import Array, Doubles, Floats

BANDS = 32
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400
PART_FRAMES = 8
RATE_HZ = 16_000
_FFT_SIZE = 512
_LOW_HZ, _HIGH_HZ = 60.0, 3_800.0
_LINEAR_HZ, _LINEAR_MELS = 1_000.0, 15.0
_LOG_STEP = np.log(6.4) / 27.0
_FULL_SCALE = 32_768.0  # the network learned from 16-bit numbers
_FLOOR, _RANGE_DB = 1e-10, 80.0


def span(parts: int) -> int:
    """Return the samples that so many parts of eight frames hear."""
    return (PART_FRAMES * parts - 1) * HOP_SAMPLES + WINDOW_SAMPLES


def speech_mel(samples: Array) -> Floats:
    """Compute the features of a stretch of sound.

    Args:
        samples: in -1..1, 16 kHz, [span(parts)].

    Returns:
        float32 [parts, 8, 32].
    """
    windows = sliding_window_view(samples, WINDOW_SAMPLES)[::HOP_SAMPLES]
    spectrum = np.fft.rfft(windows * _window(), _FFT_SIZE)
    power = np.maximum((spectrum.real**2 + spectrum.imag**2) @ _filters(), _FLOOR)
    decibels = 10 * np.log10(power).reshape(-1, PART_FRAMES, BANDS)
    decibels = np.maximum(decibels, decibels.max(axis=(1, 2), keepdims=True) - _RANGE_DB)
    features: Floats = (decibels / 10 + 2).astype(np.float32)
    return features


@functools.cache
def _window() -> Doubles:
    turns = np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES
    return np.asarray(_FULL_SCALE * (0.5 - 0.5 * np.cos(2 * np.pi * turns)))


@functools.cache
def _filters() -> Doubles:
    """Return the filters, float64 [257, 32]."""
    edges = _hz(np.linspace(_mels(_LOW_HZ), _mels(_HIGH_HZ), BANDS + 2))
    bins = np.arange(_FFT_SIZE // 2 + 1)[:, None] * RATE_HZ / _FFT_SIZE
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * 2 / (right - left))


def _mels(hz: float) -> float:
    """Return Slaney's mels: linear up to 1 kHz, logarithmic above."""
    if hz < _LINEAR_HZ:
        return _LINEAR_MELS * hz / _LINEAR_HZ
    return float(_LINEAR_MELS + np.log(hz / _LINEAR_HZ) / _LOG_STEP)


def _hz(mels: Doubles) -> Doubles:
    linear = mels * _LINEAR_HZ / _LINEAR_MELS
    return np.where(mels < _LINEAR_MELS, linear, _LINEAR_HZ * np.exp((mels - _LINEAR_MELS) * _LOG_STEP))
