"""The numbers of two networks that hear the same clip: of words, and behind them of everyday sounds."""

from __future__ import annotations

import numpy as np

from edge_client.features.embedding import Embedding
from fleet_protocol.arrays import Array, Floats
from fleet_protocol.feature_settings import JointSettings


class JointEmbedding:
    """Computes the features of some settings; may be shared by threads. ``parts``: embeddings of words, of sounds."""

    def __init__(self, settings: JointSettings) -> None:
        """Open both networks. Errors are those of :class:`edge_client.features.embedding.Embedding`."""
        self.settings = settings
        self.parts = Embedding(settings.words), Embedding(settings.sounds)

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [1, numbers of both], or [clips, 1, numbers of both]; samples and errors as ``FrontEnd``."""
        return np.concatenate([part(samples) for part in self.parts], axis=-1)
