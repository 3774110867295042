"""Per-coefficient mean and standard deviation of features, which a bundle carries.

Taken once over a corpus and then fixed: every device must scale a sound in the same way, or scores of one device
would mean nothing to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import FORMATS, Recordings
from edge_client.features.front_end import open_front_end
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import PRESETS, FeatureSettings, SpeechEmbeddingSettings, preset
from model_export.errors import ExportError


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of every coefficient; both [coefficients]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def measure(cls, features: Floats) -> Normalisation:
        """Measure features [clips, frames, coefficients] over clips and frames.

        Raises ExportError: there is a coefficient that never changes, or there are no clips.
        """
        if not len(features):
            raise ExportError("no clips to measure the features' mean and deviation on")
        mean, std = features.mean((0, 1), dtype=np.float64), features.std((0, 1), dtype=np.float64)
        if std.min() < 1e-6:
            raise ExportError(
                f"coefficient {int(std.argmin())} has the same value in all {len(features)} clips; "
                "give --recordings a folder of real sounds"
            )
        return cls(tuple(float(round(v, 4)) for v in mean), tuple(float(round(v, 4)) for v in std))

    @classmethod
    def default(cls, settings: FeatureSettings) -> Normalisation:
        """Return what was measured on speech for a preset, or for the speech embedding.

        Raises ExportError: these settings are no preset's.
        """
        if isinstance(settings, SpeechEmbeddingSettings):
            return cls._read(settings.kind)
        if settings.preset not in PRESETS or preset(settings.preset).digest != settings.digest:
            raise ExportError(
                f"no speech was measured with the feature settings {settings.describe()}; "
                "give --recordings a folder of clips to measure"
            )
        return cls._read("log_mel" if settings.preset == "utterance" else settings.preset)  # the same windows

    @classmethod
    def _read(cls, name: str) -> Normalisation:
        mean, std = (tuple(map(float, numbers.split())) for numbers in _SPEECH[name])
        return cls(mean, std)


# Measured with edge_client.features.front_end over the 3,188 clips of the ten keywords in the test set of Google Speech
# Commands v2 (Warden 2018), each padded to 1 s; for `gudur` resampled from 16,000 to 14,400 Hz.
_SPEECH: dict[str, tuple[str, str]] = {
    "gudur": (
        "-6.88 -7.2 -6.54 -5.58 -10.35 -3.37 -4.78 -4.0 -3.49 -2.12 -4.38 -3.89 -4.03",
        "5.65 16.94 14.93 15.22 16.66 15.53 15.39 14.47 14.04 13.47 12.6 11.88 11.05",
    ),
    "hello_edge": (
        "-7.15 -10.26 -6.77 -11.32 -5.21 -5.03 -3.67 -3.29 -5.05 -4.33",
        "5.62 17.27 17.45 17.49 18.65 17.17 17.56 17.54 17.14 16.54",
    ),
    "kws40": (
        """
        -7.51 -8.46 -9.63 -4.51 -14.78 -3.05 -7.83 -0.97 -7.91 1.69 -7.63 0.31 -6.23 3.47 -3.66 0.97 -3.47 1.13
        -3.05 -0.82 -0.94 0.17 -0.21 -0.07 0.11 0.16 1.41 0.86 1.78 0.72 0.83 0.31 0.71 -0.91 -0.44 -0.84 0.04
        -0.22 0.01 -0.07
        """,
        """
        5.63 20.94 18.16 18.03 19.3 19.01 19.37 17.97 17.52 17.54 16.63 15.68 14.39 13.42 11.92 10.74 9.07 7.61
        6.18 4.76 3.36 2.01 0.75 0.41 1.46 2.35 3.02 3.74 4.37 4.76 5.03 5.21 5.32 5.28 5.01 4.56 4.16 3.74 3.3
        2.5
        """,
    ),
    "log_mel": (
        """
        -6.38 -5.34 -4.69 -4.45 -4.29 -4.44 -4.72 -4.77 -5.01 -4.99 -4.98 -5.09 -5.14 -5.26 -5.39 -5.55 -5.68
        -5.92 -6.08 -6.24 -6.33 -6.5 -6.6 -6.7 -6.81 -6.95 -7.08 -7.25 -7.34 -7.37 -7.36 -7.33 -7.35 -7.42 -7.49
        -7.53 -7.56 -7.58 -7.64 -7.74
        """,
        """
        4.65 4.76 4.9 5.01 5.06 5.06 4.99 4.95 5.03 5.16 5.25 5.29 5.35 5.35 5.26 5.14 5.04 4.93 4.87 4.82 4.75
        4.67 4.58 4.47 4.41 4.36 4.3 4.22 4.17 4.16 4.19 4.23 4.27 4.27 4.24 4.22 4.2 4.18 4.14 4.09
        """,
    ),
    "speech_embedding": (
        """
        -6.79 20.14 2.21 1.75 9.14 24.22 7.82 -6.99 6.04 12.09 -18.4 -2.12 7.76 -6.65 -2.89 6.54 3.15 -2.24 1.26
        -9.37 3.48 18.01 -11.59 0.1 -7.11 9.55 -24.81 0.38 8.65 -0.44 -14.29 13.4 -23.01 -2.94 -9.74 7.09 27.99
        21.72 -1.43 20.55 -6.74 3.33 49.92 -18.8 -6.63 -8.2 -14.34 3.14 15.64 -0.8 -12.0 7.84 12.55 -1.61 -16.87
        -14.9 -7.09 27.47 -14.34 -5.44 4.69 7.99 0.6 -3.65 23.49 15.36 4.35 -10.22 -4.95 -5.86 -4.22 17.65 6.02
        -13.69 19.38 -3.44 -3.06 -3.4 -18.96 -32.73 8.75 15.82 15.02 -6.47 12.39 -1.04 4.17 -6.44 0.78 32.21 5.0
        16.7 18.03 -24.16 0.77 25.3
        """,
        """
        2.74 3.74 3.64 3.37 2.86 3.18 3.8 3.57 4.13 3.18 3.29 3.89 4.48 3.27 3.26 3.65 2.63 3.42 3.49 3.23 3.24
        3.0 2.52 3.88 3.24 3.74 3.63 3.82 2.34 3.44 2.98 3.42 3.01 3.35 4.18 2.89 3.27 4.16 2.85 3.97 4.61 2.84
        3.84 2.63 3.45 3.67 3.51 3.46 3.85 3.22 3.2 3.33 3.86 4.13 3.38 4.0 3.42 2.29 3.75 3.28 3.38 2.75 3.19
        3.3 3.84 3.87 4.41 3.41 2.75 3.49 3.7 3.86 2.69 4.28 3.34 3.49 3.15 5.6 3.0 3.65 3.5 3.45 2.93 2.66 4.15
        3.65 3.1 3.36 2.66 3.27 3.2 3.85 3.75 3.27 3.44 4.53
        """,
    ),
}


# Enough for a mean and a deviation, and read in seconds.
_CLIPS = 2000


def features_of(folder: Path, settings: FeatureSettings) -> Floats:
    """Return float32 [clips, frames, coefficients] of at most 2,000 clips, of every label alike.

    Args:
        folder: holds ``<label>/*.wav``, ``.flac`` or ``.ogg``.

    Raises:
        RecordingError: the folder cannot be read.
        ExportError: it holds no clip that can be used.
    """
    recordings = Recordings(folder, settings)
    by_label = [recordings.clips(label) for label in recordings.labels()]
    share = max(1, _CLIPS // max(1, len(by_label)))
    chosen = [path for clips in by_label for path in clips[:: -(-len(clips) // share)]]
    samples = recordings.load(chosen)
    if not len(samples):
        raise ExportError(f"{folder} holds no clip that can be used; --recordings takes <label>/*{FORMATS}")
    return open_front_end(settings)(samples)
