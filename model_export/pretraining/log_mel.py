"""Log-mel energies of recordings, as the archive's pictures show them."""

from __future__ import annotations

import numpy as np

from fleet_protocol.arrays import Array, Floats
from fleet_protocol.feature_settings import FeatureSettings, preset
from model_export.pretraining.pictures import BANDS

RATE_HZ, _HOP, _WINDOW, _FFT, _HIGH_HZ = 16_000, 160, 400, 512, 4_000
FLOOR = 1e-6
SETTINGS: FeatureSettings = preset("kws40")
"""Rate and length of a clip."""


def log_mel(samples: Array) -> Floats:
    """Return ln(power + 1e-6), float32 [clips, 98, 40], of clips [clips, 16000] in -1..1."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + _HIGH_HZ / 700), BANDS + 2) / 2595) - 1)
    bins = (np.arange(_FFT // 2 + 1) * RATE_HZ / _FFT)[:, None]
    rising, falling = (bins - edges[:-2]) / np.diff(edges[:-1]), (edges[2:] - bins) / np.diff(edges[1:])
    filters = np.maximum(0.0, np.minimum(rising, falling))
    frames = np.lib.stride_tricks.sliding_window_view(samples, _WINDOW, axis=-1)[:, ::_HOP]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(_WINDOW + 1)[:-1], _FFT))) @ filters
    return np.asarray(np.log(power + FLOOR), np.float32)
