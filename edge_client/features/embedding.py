"""Embeddings: what a frozen, pretrained network makes of a clip's log-mel features.

The network is part of the front end: nobody trains it, its digest stands in the features' digest, and a bundle carries
it. Everything behind it works on its numbers as it does on cepstra.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

import numpy as np

from edge_client.audio.recordings import loudest_stretch
from edge_client.errors import FeatureError, ModelError
from edge_client.features.log_mel import LogMel
from edge_client.features.samples import of_each_clip, require_network, require_samples
from edge_client.model.interpreter import open_network
from fleet_protocol.bundle.feature_settings import EmbeddingSettings, JointSettings
from fleet_protocol.numbers.arrays import Array, Floats

_shared: WeakValueDictionary[str, Embedding] = WeakValueDictionary()
_sharing = threading.Lock()


def shared_embedding(settings: EmbeddingSettings) -> Embedding:
    """Return an embedding that is opened once for all streams. Raises as :class:`Embedding`."""
    with _sharing:
        found = _shared.get(settings.digest)
        if found is None:
            found = _shared[settings.digest] = Embedding(settings)
        return found


class Embedding:
    """Computes the features that some settings describe; may be shared by threads."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        """Open the network.

        Raises FeatureError if only its digest is known, or it does not fit the settings; ModelError if no runtime takes
        it.
        """
        self.settings = settings
        self._log_mel = LogMel(settings.log_mel)
        self._network = open_network(require_network(settings))
        self._lock = threading.Lock()
        self.of_log_mel(np.zeros((1, *settings.log_mel.shape), np.float32))  # refuses a network of other shapes now

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [1, numbers] of a clip, or [clips, 1, numbers]; samples and errors as of ``FrontEnd``."""
        log_mel = self._log_mel(samples)
        found = self.of_log_mel(log_mel.reshape(-1, *self.settings.log_mel.shape))
        return found.reshape(*log_mel.shape[:-2], *self.settings.shape)

    def of_log_mel(self, log_mel: Floats) -> Floats:
        """Return float32 [clips, 1, numbers] of [clips, frames, mel bands]. Raises FeatureError if shapes differ."""
        scaled = (log_mel + np.float32(self.settings.offset)) / np.float32(self.settings.scale)
        try:
            with self._lock:
                found = self._network(scaled)
        except ModelError as error:
            raise FeatureError(f"the front end's network does not fit its settings: {error}") from error
        numbers = self.settings.numbers
        if found.shape[1:] != (numbers,):
            raise FeatureError(
                f"the front end's network makes {found.shape[1:]} of a clip, not the {numbers} numbers of its settings"
            )
        return found[:, None]


class JointEmbedding:
    """Computes the features of some settings; may be shared by threads. ``parts``: embeddings of words, of sounds.

    That of words hears the loudest part of a clip that is longer than its own.
    """

    def __init__(self, settings: JointSettings) -> None:
        """Open both networks. Errors are those of :class:`Embedding`."""
        self.settings = settings
        self.parts = Embedding(settings.words), Embedding(settings.sounds)

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [1, numbers of both], or [clips, 1, numbers of both]; samples and errors as ``FrontEnd``."""
        words, sounds = self.parts
        samples = require_samples(samples)[..., : self.settings.clip_samples]
        length = min(samples.shape[-1], words.settings.clip_samples)
        said = of_each_clip(samples, (length,), lambda clip: loudest_stretch(clip, words.settings))
        return np.concatenate([words(said), sounds(samples)], axis=-1)
