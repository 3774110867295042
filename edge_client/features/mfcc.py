"""Mel-frequency cepstral coefficients in NumPy: the same front end for training, export and device.

Davis & Mermelstein 1980, in the variant of python_speech_features 0.6 (HTK mel scale, rectangular window,
log energy as coefficient 0), which the fleet's presets follow number for number.
"""

from __future__ import annotations

import functools

import numpy as np

from edge_client.features.log_mel import Block, MelEnergies, blocks_of
from edge_client.features.samples import of_each_clip, require_consistent
from fleet_protocol.bundle.feature_settings import MfccSettings
from fleet_protocol.numbers.arrays import Array, Doubles, Floats

# What python_speech_features puts in place of zero before taking a logarithm.
_FLOOR = float(np.finfo(np.float64).eps)


class Mfcc:
    """Computes the features that some settings describe; may be shared by threads.

    Samples stand in -1..1 and are not rescaled: the features are those that python_speech_features computes from
    the same array. (From 16-bit integers it would compute a log energy that is 2 ln 32768 higher.)
    """

    def __init__(self, settings: MfccSettings) -> None:
        """Prepare the filters, which equal settings share. Raises FeatureError if they contradict themselves."""
        require_consistent(settings, settings.coefficients)
        self.settings = settings
        self._energies = MelEnergies(settings, _mel_filters(settings))
        self._cepstra = _cepstral_matrix(settings)

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [frames, coefficients] or [clips, frames, coefficients]; finite, also for digital silence.

        Samples and errors are those of :meth:`edge_client.features.front_end.FrontEnd.__call__`. Pre-emphasis is
        computed in the samples' own precision, as in the reference, and the rest in float64: quiet bands lie so far
        below loud ones that a float32 transform would put its rounding errors there.
        """
        return of_each_clip(samples, self.settings.shape, self._cepstra_of)

    def _pre_emphasise(self, clip: Array, signal: Array) -> None:
        """Fill the samples that the windows span with y[t] = x[t] - a x[t-1] of the cropped or padded clip."""
        end = min(len(signal), self.settings.clip_samples)
        given = min(end, len(clip))
        before = min(given, end - 1)
        signal[0] = 0.0
        np.multiply(clip[:before], -self.settings.pre_emphasis, out=signal[1 : before + 1])
        signal[before + 1 :] = 0.0
        signal[:given] += clip[:given]

    def _cepstra_of(self, clip: Array) -> Doubles:
        """Return float64 [frames, coefficients]."""
        energies = self._energies(functools.partial(self._pre_emphasise, clip), clip.dtype)
        energies[:, -1] /= self.settings.fft_size
        energies[energies == 0] = _FLOOR
        np.log(energies, out=energies)
        cepstra = energies[:, :-1] @ self._cepstra
        if self.settings.log_energy:
            cepstra[:, 0] = energies[:, -1]
        return cepstra


@functools.lru_cache(maxsize=8)
def _mel_filters(settings: MfccSettings) -> tuple[Block, ...]:
    """Return the triangular filters; the power spectrum's factor 1 / fft_size is part of their weights."""
    edges_mel = np.linspace(_hz_to_mel(settings.low_hz), _hz_to_mel(settings.high_hz), settings.mel_bands + 2)
    edges_hz = 700.0 * (10.0 ** (edges_mel / 2595.0) - 1.0)
    edges = np.floor((settings.fft_size + 1) * edges_hz / settings.sample_rate_hz)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(settings.fft_size // 2 + 1)[:, None]
    # A side of width zero has no bins; dividing by 1 there keeps the arithmetic quiet.
    rising = (bins - left) / np.maximum(centre - left, 1.0)
    falling = (right - bins) / np.maximum(right - centre, 1.0)
    filters: Doubles = np.where((bins >= left) & (bins < centre), rising, 0.0)
    filters = np.where((bins >= centre) & (bins < right), falling, filters) / settings.fft_size
    return blocks_of(filters)


def _hz_to_mel(frequency_hz: float) -> float:
    return float(2595.0 * np.log10(1.0 + frequency_hz / 700.0))


@functools.lru_cache(maxsize=8)
def _cepstral_matrix(settings: MfccSettings) -> Doubles:
    """Return float64 [mel_bands, coefficients]: orthonormal DCT-II with the lifter in it."""
    order = np.arange(settings.coefficients)
    band = np.arange(settings.mel_bands)[:, None]
    bands = settings.mel_bands
    matrix: Doubles = np.sqrt(2.0 / bands) * np.cos(np.pi * order * (2 * band + 1) / (2 * bands))
    matrix[:, 0] /= np.sqrt(2.0)
    if settings.lifter > 0:
        matrix *= 1.0 + settings.lifter / 2.0 * np.sin(np.pi * order / settings.lifter)
    matrix.setflags(write=False)
    return matrix
