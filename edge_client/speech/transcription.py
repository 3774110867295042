"""From recordings to texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edge_client.audio.recordings import read_recording
from edge_client.errors import ModelError, RecordingError
from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime
from edge_client.speech.ctc import greedy, text_of
from fleet_protocol.arrays import Floats


class Transcriber:
    """Writes down what is said in recordings that are no longer than a bundle's clip."""

    def __init__(self, bundle: Path) -> None:
        """Open the bundle. Raises BundleError, ModelError if it cannot be opened, or recognises classes."""
        self._model = ModelRuntime.open(bundle)
        if not self._model.manifest.characters:
            raise ModelError(
                f"{bundle} ({self._model.manifest.architecture}) recognises classes of sounds and writes no texts; "
                "build one that does: auricle-export build dcnn_ctc --features utterance"
            )
        self._settings = self._model.manifest.feature_settings
        self._front_end = open_front_end(self._settings)

    def __call__(self, path: Path) -> str:
        """Return what a sound file says. Raises RecordingError if it cannot be read, or is longer than a clip."""
        samples = read_recording(path, self._settings.sample_rate_hz)
        if len(samples) > self._settings.clip_samples:
            raise RecordingError(
                f"{path} lasts {len(samples) / self._settings.sample_rate_hz:.2f} s; this bundle hears "
                f"{self._settings.clip_s:g} s at once: cut it in parts, between words"
            )
        return self.text(self._front_end(samples))

    def text(self, features: Floats) -> str:
        """Return what features [frames, numbers per frame] say."""
        manifest = self._model.manifest
        x = self._model.normalise(features[None])
        (symbols,) = greedy(self._model.predict(x, np.ones(manifest.capacity, np.float32)))
        return text_of(symbols, manifest.characters)
