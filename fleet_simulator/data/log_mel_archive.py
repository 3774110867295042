"""Speech Commands as 8-bit log-mel pictures: entries ``<label>/<speaker>_nohash_<n>.<word>.jpg`` of 98 x 40 pixels.

A pixel is 9.92 ln(power + 1e-6) + 147.7. Frames are averaged in power to those of a preset, and a DCT-II makes
cepstra of the bands.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.feature_settings import FeatureSettings, LogMelSettings, MfccSettings
from fleet_simulator.data.recording_layouts import NOBODY, Entry
from fleet_simulator.errors import CorpusError
from model_export.errors import ExportError
from model_export.pretraining.pictures import BANDS, FRAMES, decode, picture_paths


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
        paths = picture_paths(archive)
    except ExportError as error:
        raise CorpusError(str(error)) from error
    entries = []
    for path in paths:
        speaker, spoken, rest = path.name.partition("_nohash_")
        word = rest.split(".")[1] if rest.count(".") > 1 else ""
        entries.append(Entry(path, path.parent.name, speaker if spoken else NOBODY, word))
    return tuple(entries)


def read_pictures(archive: Path, entries: Sequence[Entry]) -> NDArray[np.uint8]:
    """Decode some pictures, uint8 [clips, frames, bands].

    Raises:
        CorpusError: Pillow is not installed, or a picture is damaged.
    """
    try:
        return decode(archive, [entry.path for entry in entries])
    except ExportError as error:
        raise CorpusError(str(error)) from error


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
