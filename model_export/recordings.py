"""Features of a folder of recordings, for what is measured on real sounds: normalisation, ranges of int8 models."""

from __future__ import annotations

from pathlib import Path

from edge_client.audio.recordings import FORMATS, Recordings
from edge_client.features.front_end import open_front_end
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings
from model_export.errors import ExportError

# Enough for a mean and a deviation, and read in seconds.
_CLIPS = 2000


def features_of(folder: Path, settings: FeatureSettings) -> Floats:
    """Return float32 [clips, frames, coefficients] of at most 2,000 clips, of every label alike.

    Args:
        folder: holds ``<label>/*.wav``, ``.flac`` or ``.ogg``.
        settings: how the features are computed.

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
