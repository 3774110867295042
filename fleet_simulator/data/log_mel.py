"""Speech Commands as 8-bit log-mel pictures, ``<label>/<speaker>_nohash_<n>.<word>.jpg`` of 98 x 40 pixels.

A pixel is 9.92 ln(power + 1e-6) + 147.7. Frames are averaged in power to those of a preset, and a DCT-II makes
cepstra of the bands. Noise and shifts are as they would be in the waveform's picture: powers of sound and noise do not
just add, for with spectra X and N, |X + N|^2 = |X|^2 + |N|^2 + 2 Re(X* N). A picture lacks X's phases, so the last term
is that of a sound which is itself noise of the picture's spectrum.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.features.augmentation import NOISE_PROBABILITY, NOISE_VOLUME, SHIFT_S
from edge_client.features.log_mel import mel_filters
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.feature_settings import FeatureSettings, LogMelSettings, MfccSettings
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_simulator.data.recording_layouts import BACKGROUNDS, Entry
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.sections import DataSection
from model_export.pretraining.corpus import SETTINGS
from model_export.pretraining.pictures import BANDS, FLOOR, FRAMES, decode, mel_power, picture_paths, speaker_and_word


def pictures(archive: Path) -> tuple[Entry, ...]:
    """List the pictures of an archive. Raises CorpusError, ExportError: it is no such archive."""
    if not archive.is_file():
        raise CorpusError(f"there is no log-mel archive {archive}")
    status = archive.stat()
    return _listed(archive, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=2)
def _listed(archive: Path, _mtime_ns: int, _size: int) -> tuple[Entry, ...]:
    return tuple(Entry(path, path.parent.name, *speaker_and_word(path)) for path in picture_paths(archive))


def _features_of_power(power: Floats, settings: FeatureSettings) -> Floats:
    """Return features, [clips, frames, numbers], of mel powers, [clips, 98 frames, 40 bands]. Raises CorpusError."""
    if isinstance(settings, MfccSettings):
        return cepstra(power, settings)
    if isinstance(settings, LogMelSettings) and settings.shape == (FRAMES, BANDS):
        return np.log(power)
    raise CorpusError(
        f"log-mel pictures of {FRAMES} x {BANDS} have no features {settings.describe()}; use cepstra, or log_mel"
    )


def cepstra(power: Floats, settings: MfccSettings) -> Floats:
    """Return cepstra of mel powers, float32 [clips, 98 frames, 40 bands] -> [clips, frames, coefficients].

    Each of the settings' frames is the mean of the 10 ms frames that fall into it.
    """
    frames = settings.frames
    each = -(-FRAMES // frames)  # a preset of more frames than a picture has repeats the last one
    beyond = each * frames - FRAMES
    last = power[:, -1:].repeat(beyond, axis=1) if each == 1 else power[:, FRAMES - beyond :]
    parts = np.concatenate([power, last], axis=1).reshape(len(power), frames, each, BANDS)
    bands, order = np.arange(BANDS), np.arange(settings.coefficients)[:, None]
    dct: Doubles = np.sqrt(2 / BANDS) * np.cos(np.pi * (bands + 0.5) * order / BANDS)  # orthonormal DCT-II
    dct[0] /= np.sqrt(2)
    return np.asarray(np.log(parts.mean(axis=2)) @ dct.T, np.float32)


_RATE_HZ, _HOP, _WINDOW, _FFT = 16_000, 160, 400, 512  # of the archive's pictures
_POOL = 12_000  # frames of noise, two minutes
_SHIFT = round(SHIFT_S * _RATE_HZ / _HOP)
# Powers read from pixels are larger than the clip's by this factor in the median clip: 8 bits and JPEG scatter their
# logarithm by 0.65, without bias.
_SCATTER = 1.19


@dataclass(frozen=True)
class NoiseFrames:
    """A long stretch of white noise as the pictures show it, and how it meets other sounds."""

    # float32 [frames, bands], of noise that has as much power as a sound below 4 kHz whose bands sum up to 1
    power: Floats
    cross: Floats  # float32 [frames, bands], from -1 to 1: the cosine between noise and sound

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
        backgrounds: powers of background noise, float32 [clips, 98, bands]; none: the clip is only moved.
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
    filters = mel_filters(SETTINGS)
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


_CHUNK = 1024  # pictures taken at a time


def picture_features(
    data: DataSection, entries: Sequence[Entry], manifest: Manifest, seed: int
) -> tuple[Floats, Floats | None]:
    """Return features of pictures, and what devices have instead, as :func:`.corpora.recording_features` does."""
    assert data.path is not None
    settings = manifest.feature_settings
    pixels = decode(data.path, [entry.path for entry in entries])
    noise = [entry.path for entry in pictures(data.path) if entry.label in BACKGROUNDS] if data.variants else []
    backgrounds = mel_power(decode(data.path, noise))
    x = np.empty((len(pixels), *settings.shape), np.float32)
    trained = np.empty((len(pixels), 1 + data.variants, *settings.shape), np.float32) if data.changed else None
    for start in range(0, len(x), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        power = mel_power(pixels[chunk])
        x[chunk] = _features_of_power(power, settings)
        if trained is not None:
            heard = [
                _heard(clip, data, backgrounds, np.random.default_rng([seed, 9, row]))
                for row, clip in enumerate(power, start)
            ]
            trained[chunk] = _features_of_power(np.concatenate(heard), settings).reshape(trained[chunk].shape)
    mean, std = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
    if trained is not None:
        trained -= mean
        trained /= std
    x -= mean  # in place: a whole archive fills half a gigabyte
    x /= std
    return x, trained


def _heard(power: Floats, data: DataSection, backgrounds: Floats, rng: np.random.Generator) -> Floats:
    """Return what a device has of a picture, mel powers float32 [1 + variants, 98, bands]."""
    if np.isfinite(data.snr_db):
        power = with_white_noise(power, data.snr_db, rng)
    return np.stack([power, *(varied(power, backgrounds, rng) for _ in range(data.variants))])
