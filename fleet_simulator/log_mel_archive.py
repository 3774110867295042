"""Speech Commands as 8-bit log-mel pictures: entries ``<label>/<speaker>_nohash_<n>.<word>.jpg`` of 98 x 40 pixels.

A pixel is 9.92 ln(power + 1e-6) + 147.7. Frames are averaged in power to those of a preset, and a DCT-II makes
cepstra of the bands, standardised over all clips.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.feature_settings import FeatureSettings
from fleet_simulator.errors import CorpusError

_BANDS = 40


@dataclass(frozen=True)
class LogMel:
    """Normalised features of every clip, float32 [clips, frames, coefficients], and each clip's label and speaker."""

    x: NDArray[np.float32]
    labels: NDArray[np.str_]
    speakers: NDArray[np.str_]


def read_log_mel(archive: Path, settings: FeatureSettings, labels: Collection[str] = ()) -> LogMel:
    """Read the pictures of some labels; none named: of every label that does not start with ``_``.

    Raises:
        CorpusError: Pillow is not installed, the file is no such archive, or has no such picture.
    """
    cepstra, owners, speakers = [], [], []
    frames, dct = settings.frames, dct_matrix(settings.coefficients)
    try:
        with zipfile.ZipFile(archive) as pictures:
            for name in pictures.namelist():
                path = PurePosixPath(name)
                label = path.parent.name
                if path.suffix != ".jpg" or (label not in labels if labels else label.startswith("_")):
                    continue
                cepstra.append(np.log(_power(pictures.read(name), frames)) @ dct.T)
                owners.append(label)
                speakers.append(path.name.split("_nohash_")[0])
    except (OSError, zipfile.BadZipFile) as error:
        raise CorpusError(f"{archive} is no archive of log-mel pictures ({error})") from error
    if not cepstra:
        raise CorpusError(f"{archive} has no pictures of {', '.join(labels) or 'any label'}")
    features = np.array(cepstra, np.float32)
    x = (features - features.mean(axis=(0, 1))) / features.std(axis=(0, 1))
    return LogMel(x, np.array(owners), np.array(speakers))


def dct_matrix(coefficients: int) -> NDArray[np.float64]:
    """Return the orthonormal DCT-II, float64 [coefficients, bands]."""
    bands = np.arange(_BANDS)
    dct: NDArray[np.float64] = np.sqrt(2 / _BANDS) * np.cos(
        np.pi * (bands + 0.5) * np.arange(coefficients)[:, None] / _BANDS
    )
    dct[0] /= np.sqrt(2)
    return dct


def _power(picture: bytes, frames: int) -> NDArray[np.float32]:
    """Return mel powers, float32 [frames, bands]: each the mean of the 10 ms frames that fall into it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise CorpusError(f"pictures need Pillow ({error}); pip install 'auricle[sim]'") from error
    pixels = np.asarray(Image.open(io.BytesIO(picture)), np.float32)  # [98 frames, 40 bands]
    power = np.exp((pixels - 147.7) / 9.92)
    if frames >= len(power):
        return np.concatenate([power, np.repeat(power[-1:], frames - len(power), axis=0)])
    each = -(-len(power) // frames)
    padded = np.concatenate([power, power[-(each * frames - len(power)) :]]) if each * frames > len(power) else power
    return np.asarray(padded.reshape(frames, each, _BANDS).mean(axis=1), np.float32)
