"""Speech Commands as 8-bit log-mel pictures: entries ``<label>/<speaker>_nohash_<n>.<word>.jpg`` of 98 x 40 pixels.

A pixel is 9.92 ln(power + 1e-6) + 147.7. Frames are averaged in power to those of a preset, and a DCT-II makes
cepstra of the bands.
"""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.feature_settings import FeatureSettings, LogMelSettings, MfccSettings
from fleet_simulator.data.recording_layouts import NOBODY, Entry
from fleet_simulator.errors import CorpusError

FRAMES = 98  # of 25 ms, every 10 ms
BANDS = 40
FLOOR = np.float32(1e-6)
_POWERS = np.exp((np.arange(256) - 147.7) / 9.92).astype(np.float32)  # of every pixel value


def pictures(archive: Path) -> tuple[Entry, ...]:
    """List the pictures of an archive.

    Raises:
        CorpusError: it is no such archive.
    """
    if not archive.is_file():
        raise CorpusError(f"there is no log-mel archive {archive}")
    status = archive.stat()
    return _listed(archive, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=2)
def _listed(archive: Path, _mtime_ns: int, _size: int) -> tuple[Entry, ...]:
    try:
        with zipfile.ZipFile(archive) as zipped:
            paths = [PurePosixPath(name) for name in zipped.namelist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise _no_archive(archive, error) from error
    entries = []
    for path in paths:
        if path.suffix == ".jpg":
            speaker, spoken, rest = path.name.partition("_nohash_")
            word = rest.split(".")[1] if rest.count(".") > 1 else ""
            entries.append(Entry(path, path.parent.name, speaker if spoken else NOBODY, word))
    if not entries:
        raise CorpusError(f"{archive} has no pictures as <label>/<speaker>_nohash_<n>.<word>.jpg")
    return tuple(entries)


def read_pictures(archive: Path, entries: Sequence[Entry]) -> NDArray[np.uint8]:
    """Decode some pictures, uint8 [clips, frames, bands].

    Raises:
        CorpusError: Pillow is not installed, or a picture is damaged.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise CorpusError(f"pictures need Pillow ({error}); pip install 'auricle[sim]'") from error
    pixels = np.empty((len(entries), FRAMES, BANDS), np.uint8)
    try:
        with zipfile.ZipFile(archive) as zipped:
            for picture, entry in zip(pixels, entries, strict=True):
                picture[:] = Image.open(io.BytesIO(zipped.read(str(entry.path))))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _no_archive(archive, error) from error
    return pixels


def _no_archive(archive: Path, error: Exception) -> CorpusError:
    return CorpusError(f"{archive} is no archive of log-mel pictures of {FRAMES} x {BANDS} pixels ({error})")


def mel_power(pixels: NDArray[np.uint8]) -> Floats:
    """Return what pixels stand for, float32 of their shape: power in the band, and 1e-6."""
    return np.asarray(_POWERS[pixels], np.float32)


def features_of_power(power: Floats, settings: FeatureSettings) -> Floats:
    """Return the features of mel powers, float32 [clips, 98 frames, 40 bands] -> [clips, frames, numbers per frame].

    Raises:
        CorpusError: pictures have no such features.
    """
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
    return np.asarray(np.log(parts.mean(axis=2)) @ dct_matrix(settings.coefficients).T, np.float32)


def dct_matrix(coefficients: int) -> Doubles:
    """Return the orthonormal DCT-II, float64 [coefficients, bands]."""
    bands = np.arange(BANDS)
    dct: Doubles = np.sqrt(2 / BANDS) * np.cos(np.pi * (bands + 0.5) * np.arange(coefficients)[:, None] / BANDS)
    dct[0] /= np.sqrt(2)
    return dct
