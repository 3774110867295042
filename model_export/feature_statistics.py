"""Per-coefficient mean and standard deviation of features, which a bundle carries.

Taken once over a corpus and then fixed: every device must scale a sound in the same way, or scores of one device
would mean nothing to another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import FORMATS, Recordings
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats
from model_export.errors import ExportError


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of every coefficient; both [coefficients]."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def measure(cls, features: Floats) -> Normalisation:
        """Measure features [clips, frames, coefficients]. Raises ExportError: no clips, or a number never changes."""
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
        """Return what was measured on speech for a preset."""
        measured = json.loads(_SPEECH.read_text())[settings.preset]
        return cls(tuple(measured["mean"]), tuple(measured["std"]))


# Measured with edge_client.features.front_end over the 3,188 clips of the ten keywords in the test set of Google Speech
# Commands v2 (Warden 2018), each padded to 1 s; for `gudur` resampled from 16,000 to 14,400 Hz.
_SPEECH = Path(__file__).with_name("speech_statistics.json")
# Enough for a mean and a deviation, and read in seconds.
_CLIPS = 2000


def features_of(folder: Path, settings: FeatureSettings) -> Floats:
    """Return float32 [clips, frames, coefficients] of at most 2,000 clips, ``<label>/*``, of every label alike.

    Raises RecordingError: the folder cannot be read; ExportError: it holds no clip that can be used.
    """
    recordings = Recordings(folder, settings)
    by_label = [recordings.clips(label) for label in recordings.labels()]
    share = max(1, _CLIPS // max(1, len(by_label)))
    chosen = [path for clips in by_label for path in clips[:: -(-len(clips) // share)]]
    samples = recordings.load(chosen)
    if not len(samples):
        raise ExportError(f"{folder} holds no clip that can be used; --recordings takes <label>/*{FORMATS}")
    return open_front_end(settings)(samples)
