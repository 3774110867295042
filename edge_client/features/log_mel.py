"""Log-mel features in NumPy: what networks that learned from spectrograms take.

The power spectrum of periodic Hann windows, in triangular filters on the HTK mel scale whose peak is 1, and
ln(power + floor). These are the numbers of the log-mel pictures of Speech Commands.
"""

from __future__ import annotations

import functools

import numpy as np

from edge_client.features.mel_energies import MelEnergies, blocks_of
from edge_client.features.samples import require_consistent, require_samples
from fleet_protocol.arrays import Array, Doubles, Floats
from fleet_protocol.feature_settings import LogMelSettings


class LogMel:
    """Computes the features that some settings describe; may be shared by threads."""

    def __init__(self, settings: LogMelSettings) -> None:
        """Prepare the filters, which equal settings share.

        Raises:
            FeatureError: the settings contradict themselves.
        """
        require_consistent(settings, settings.mel_bands)
        self.settings = settings
        size = settings.window_samples
        window: Doubles = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
        self._energies = MelEnergies(settings, blocks_of(mel_filters(settings)), window)

    def __call__(self, samples: Array) -> Floats:
        """Compute the features of one clip or of many.

        Args:
            samples: float32 or float64, [samples] or [clips, samples], in -1..1, at the settings' rate. A clip longer
                than the settings say is cropped at its end, a shorter one is padded with zeros.

        Returns:
            float32 [frames, mel bands] or [clips, frames, mel bands]; finite, also for digital silence.

        Raises:
            FeatureError: the samples are integers, not finite, none at all, or of a wrong rank.
        """
        samples = require_samples(samples)
        clips = np.atleast_2d(samples)
        features = np.empty((len(clips), *self.settings.shape), np.float32)
        for clip, into in zip(clips, features, strict=True):
            power = self._energies(functools.partial(self._place, clip), clips.dtype)[:, :-1]
            into[...] = np.log(power + self.settings.floor)
        return features.reshape(*samples.shape[:-1], *self.settings.shape)

    def _place(self, clip: Array, signal: Array) -> None:
        given = min(len(clip), len(signal), self.settings.clip_samples)
        signal[:given], signal[given:] = clip[:given], 0.0


@functools.lru_cache(maxsize=8)
def mel_filters(settings: LogMelSettings) -> Doubles:
    """Return triangular filters with a peak of 1, float64 [fft_size / 2 + 1, mel bands]."""
    low, high = (2595.0 * np.log10(1.0 + hz / 700.0) for hz in (settings.low_hz, settings.high_hz))
    edges = 700.0 * (10.0 ** (np.linspace(low, high, settings.mel_bands + 2) / 2595.0) - 1.0)
    bins = np.arange(settings.fft_size // 2 + 1)[:, None] * settings.sample_rate_hz / settings.fft_size
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    filters: Doubles = np.maximum(0.0, np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre)))
    filters.setflags(write=False)
    return filters
