"""The spectrum of a stream for display: power in mel bands, a column every 20 ms, in bytes."""

from __future__ import annotations

import numpy as np

from edge_client.audio.level import frame_levels_dbfs
from edge_client.features.log_mel import mel_filters
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.feature_settings import LogMelSettings

BANDS = 40
COLUMN_S = 0.02
_WINDOW_S = 0.032
_LOW_HZ, _HIGH_HZ = 60.0, 8_000.0
# Levels that a byte stands for, dB of a full-scale sine.
LOWEST_DB, HIGHEST_DB = -110.0, -20.0


class Spectrum:
    """Columns of a stream; what is too short for a column waits for the next samples."""

    def __init__(self, sample_rate_hz: int) -> None:
        """Prepare for a stream of so many samples a second."""
        self._hop, size = round(COLUMN_S * sample_rate_hz), round(_WINDOW_S * sample_rate_hz)
        self.column_s = self._hop / sample_rate_hz
        highest = min(_HIGH_HZ, sample_rate_hz / 2)
        settings = LogMelSettings(
            "live", sample_rate_hz, _WINDOW_S, _WINDOW_S, COLUMN_S, 1, BANDS, size, _LOW_HZ, highest
        )
        filters = mel_filters(settings)
        self._window: Doubles = np.hanning(size)
        self._filters = filters / filters.sum(axis=0) * 4 / self._window.sum() ** 2
        self._waiting = np.zeros(0, np.float32)

    def reset(self) -> None:
        """Forget what waits: the next samples do not follow it."""
        self._waiting = self._waiting[:0]

    def __call__(self, samples: Floats) -> tuple[bytes, tuple[float, ...]]:
        """Return the columns that float32 [samples] complete, ``BANDS`` bytes each, and the level of each in dB."""
        waiting = np.concatenate([self._waiting, samples])
        size = len(self._window)
        count = max(0, (len(waiting) - size) // self._hop + 1)
        self._waiting = waiting[count * self._hop :]
        if not count:
            return b"", ()
        windows = np.lib.stride_tricks.sliding_window_view(waiting, size)[:: self._hop][:count]
        power = np.square(np.abs(np.fft.rfft(windows * self._window))) @ self._filters
        decibels = 10 * np.log10(power + 1e-12)
        scaled = 255 * (decibels - LOWEST_DB) / (HIGHEST_DB - LOWEST_DB)
        levels = frame_levels_dbfs(waiting[: count * self._hop], self._hop)
        return scaled.clip(0, 255).astype(np.uint8).tobytes(), tuple(round(float(level), 1) for level in levels)
