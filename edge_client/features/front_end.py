"""Opens the front end that some settings describe: the one way from samples to features, everywhere."""

from __future__ import annotations

from typing import Protocol

from edge_client.errors import FeatureError
from edge_client.features.embedding import Embedding
from edge_client.features.log_mel import LogMel
from edge_client.features.mfcc import Mfcc
from edge_client.features.speech_embedding import SpeechEmbedding
from fleet_protocol.arrays import Array, Floats
from fleet_protocol.feature_settings import (
    EmbeddingSettings,
    FeatureSettings,
    LogMelSettings,
    MfccSettings,
    SpeechEmbeddingSettings,
)


class FrontEnd(Protocol):
    """Computes features; may be shared by threads."""

    @property
    def settings(self) -> FeatureSettings:
        """Settings that the features follow."""

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [frames, numbers per frame] of a clip, or [clips, frames, numbers per frame] of many.

        Args:
            samples: float32 or float64, [samples] or [clips, samples], in -1..1, at the settings' rate. A clip longer
                than the settings say is cropped at its end, a shorter one is padded with zeros.

        Raises:
            FeatureError: the samples are integers, not finite, none at all, or of a wrong rank.
        """


def open_front_end(settings: FeatureSettings) -> FrontEnd:
    """Return the front end of some settings.

    Raises:
        FeatureError: the settings contradict themselves, are of a kind that this version does not know, or name a
            network of which only the digest is known.
        ModelError: no runtime can take the front end's network.
    """
    if isinstance(settings, MfccSettings):
        return Mfcc(settings)
    if isinstance(settings, LogMelSettings):
        return LogMel(settings)
    if isinstance(settings, EmbeddingSettings):
        return Embedding(settings)
    if isinstance(settings, SpeechEmbeddingSettings):
        return SpeechEmbedding(settings)
    raise FeatureError(f"no front end computes features of the kind {settings.kind!r}; update the software")
