"""White noise, time shift and background noise for log-mel pictures, as they would be in the waveform's picture.

Powers of sound and noise do not just add: with spectra X and N, |X + N|^2 = |X|^2 + |N|^2 + 2 Re(X* N). A picture lacks
X's phases, so the last term is that of a sound which is itself noise of the picture's spectrum.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_client.features.augmentation import NOISE_PROBABILITY, NOISE_VOLUME, SHIFT_S
from fleet_protocol.arrays import Doubles, Floats
from model_export.pretraining.pictures import BANDS, FLOOR, FRAMES

_RATE_HZ, _HOP, _WINDOW, _FFT, _HIGH_HZ = 16_000, 160, 400, 512, 4_000  # of the archive's pictures
_POOL = 12_000  # frames of noise, two minutes
_SHIFT = round(SHIFT_S * _RATE_HZ / _HOP)
# Powers read from pixels are larger than the clip's by this factor in the median clip: 8 bits and JPEG scatter their
# logarithm by 0.65, without bias.
_SCATTER = 1.19


@dataclass(frozen=True)
class NoiseFrames:
    """A long stretch of white noise as the pictures show it, and how it meets other sounds.

    Attributes:
        power: float32 [frames, bands], of noise that has as much power as a sound below 4 kHz whose bands sum up to 1.
        cross: float32 [frames, bands], from -1 to 1: the cosine between noise and sound.
    """

    power: Floats
    cross: Floats

    def stretch(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw a second of it: power and cross, float32 [98, bands] each."""
        start = int(rng.integers(len(self.power) - FRAMES + 1))
        return self.power[start : start + FRAMES], self.cross[start : start + FRAMES]


def with_white_noise(power: Floats, snr_db: float, rng: np.random.Generator) -> Floats:
    """Return a clip's mel powers, float32 [98, bands], with white noise that is ``snr_db`` below the clip's power.

    The clip's power is taken from below 4 kHz, where the pictures end and half of the noise lies.
    """
    noise, cross = white_noise().stretch(rng)
    total = power.sum(axis=1).mean() / _SCATTER * 10 ** (-snr_db / 10)
    return _mixed(power, np.asarray(total * noise, np.float32), cross)


def varied(power: Floats, backgrounds: Floats, rng: np.random.Generator) -> Floats:
    """Return a clip's mel powers, float32 [98, bands], moved in time and, with some probability, with a background.

    Args:
        power: the clip's.
        backgrounds: powers of background noise, float32 [clips, 98, bands]; none: the clip is only moved.
        rng: draws shift and background.
    """
    by = int(rng.integers(-_SHIFT, _SHIFT + 1))
    moved = np.full_like(power, FLOOR)
    moved[max(0, by) : FRAMES + min(0, by)] = power[max(0, -by) : FRAMES - max(0, by)]
    if not len(backgrounds) or rng.random() >= NOISE_PROBABILITY:
        return moved
    _, cross = white_noise().stretch(rng)
    return _mixed(moved, np.float32(NOISE_VOLUME**2) * backgrounds[rng.integers(len(backgrounds))], cross)


def _mixed(sound: Floats, noise: Floats, cross: Floats) -> Floats:
    """Return powers of a sound and a noise together; not negative, since ``cross`` is from -1 to 1."""
    return np.asarray(sound + noise + 2 * np.sqrt(sound * noise) * cross, np.float32)


@functools.cache
def white_noise() -> NoiseFrames:
    """Return two minutes of white noise, always the same."""
    rng = np.random.default_rng(0)
    spectra = [_spectra(rng) for _ in range(2)]
    filters = mel_filters()
    power, other = (np.square(np.abs(spectrum)) @ filters for spectrum in spectra)
    cross = (spectra[0] * spectra[1].conj()).real @ filters / np.sqrt(power * other)
    # A sound's power below 4 kHz, summed over half of the FFT's points, is as much as its mean square times this.
    unit = _FFT / 2 * np.square(_hann()).sum()
    return NoiseFrames(np.asarray(power / unit, np.float32), np.asarray(cross, np.float32))


def _spectra(rng: np.random.Generator) -> NDArray[np.complex128]:
    noise = rng.standard_normal(_HOP * (_POOL - 1) + _WINDOW)
    frames = np.lib.stride_tricks.sliding_window_view(noise, _WINDOW)[::_HOP]
    return np.asarray(np.fft.rfft(frames * _hann(), _FFT), np.complex128)


def _hann() -> Doubles:
    return np.hanning(_WINDOW + 1)[:-1]


def mel_filters() -> Doubles:
    """Return the pictures' triangular HTK filters, float64 [bins, bands]."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + _HIGH_HZ / 700), BANDS + 2) / 2595) - 1)
    bins = (np.arange(_FFT // 2 + 1) * _RATE_HZ / _FFT)[:, None]
    rising, falling = (bins - edges[:-2]) / np.diff(edges[:-1]), (edges[2:] - bins) / np.diff(edges[1:])
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)))
