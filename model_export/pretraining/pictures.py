"""Archives of 8-bit log-mel pictures: entries ``<label>/<speaker>_nohash_<n>.<word>.jpg`` of 98 x 40 pixels.

A pixel is 9.92 ln(power + 1e-6) + 147.7, power in 40 HTK mel bands over 0 to 4000 Hz, 25 ms windows, 10 ms hop.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.bundle.ready_bundles import DAMAGED
from fleet_protocol.numbers.arrays import Array, Floats
from model_export.errors import CorpusError

FRAMES = 98  # of 25 ms, every 10 ms
BANDS = 40
FLOOR = np.float32(1e-6)
_SLOPE, _OFFSET = 9.92, 147.7
LOG_POWERS = ((np.arange(256) - _OFFSET) / _SLOPE).astype(np.float32)
"""ln(power + 1e-6) of every pixel value, float32 [256]."""
_MEAN, _SCALE = np.float32(6.0), np.float32(0.2)
_POWERS = np.exp((np.arange(256) - _OFFSET) / _SLOPE).astype(np.float32)


def without_unknown(inputs: Any, clips: Any, others: Any = False) -> Any:  # noqa: ANN401
    """Hide the bands above 4 kHz of some inputs, [clips, frames, bands]: they become 0.

    These are clips that end there, whose highest known band stands in the others too, and where ``others`` is true.
    """
    hidden = (clips[:, :, BANDS:] == clips[:, :, BANDS - 1 : BANDS]).all((1, 2)) | others
    return inputs * ~(hidden[:, None, None] & (np.arange(inputs.shape[2]) >= BANDS))


def picture_paths(archive: Path) -> list[PurePosixPath]:
    """List the pictures of an archive, in its order. Raises CorpusError: it is no such archive."""
    if not archive.is_file():
        raise CorpusError(f"there is no log-mel archive {archive}")
    try:
        with zipfile.ZipFile(archive) as zipped:
            paths = [PurePosixPath(name) for name in zipped.namelist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise _no_archive(archive, error) from error
    found = [path for path in paths if path.suffix == ".jpg"]
    if not found:
        raise CorpusError(f"{archive} has no pictures as <label>/<speaker>_nohash_<n>.<word>.jpg")
    return found


def speaker_and_word(picture: PurePath) -> tuple[str, str]:
    """Return by a picture's name who speaks, and what is said; each "" where it does not tell."""
    speaker, spoken, rest = picture.name.partition("_nohash_")
    return speaker if spoken else "", rest.split(".")[1] if rest.count(".") > 1 else ""


def decode(archive: Path, paths: Sequence[PurePath]) -> NDArray[np.uint8]:
    """Decode some pictures, uint8 [clips, frames, bands].

    Raises CorpusError: Pillow is not installed, or a picture is damaged.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise CorpusError(f"pictures need Pillow ({error}); pip install 'auricle[export]' or 'auricle[sim]'") from error
    pixels = np.empty((len(paths), FRAMES, BANDS), np.uint8)
    try:
        with zipfile.ZipFile(archive) as zipped:
            for picture, path in zip(pixels, paths, strict=True):
                picture[:] = Image.open(io.BytesIO(zipped.read(str(path))))
    except DAMAGED as error:
        raise _no_archive(archive, error) from error
    return pixels


def _no_archive(archive: Path, error: Exception) -> CorpusError:
    return CorpusError(f"{archive} is no archive of log-mel pictures of {FRAMES} x {BANDS} pixels ({error})")


def mel_power(pixels: NDArray[np.uint8]) -> Floats:
    """Return what pixels stand for, float32 of their shape: power in the band, and 1e-6."""
    return np.asarray(_POWERS[pixels], np.float32)


def to_pixels(log_power: Array) -> NDArray[np.uint8]:
    """Return the pixels, uint8, that are nearest to ln(power + 1e-6)."""
    return np.asarray(np.clip(np.rint(log_power * _SLOPE + _OFFSET), 0, 255), np.uint8)


def normalised(log_power: Any) -> Any:  # noqa: ANN401
    """Return the network's input, (x + 6) / 5, of ln(power + 1e-6): an array of NumPy or JAX, float32, like that."""
    return (log_power + _MEAN) * _SCALE
