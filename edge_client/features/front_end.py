"""Opens the front end that some settings describe: the one way from samples to features, of clips and of streams.

Of a window that slides over a stream only what is new is computed. A clip's frames do not depend on one another, except
that pre-emphasis knows no sample before the clip's first. So frame 0 of cepstra belongs to one window alone, and every
other frame is the same in all windows that hold it.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from edge_client.errors import FeatureError
from edge_client.features.embedding import Embedding, JointEmbedding, shared_embedding
from edge_client.features.log_mel import LogMel
from edge_client.features.mfcc import Mfcc
from fleet_protocol.bundle.feature_settings import (
    EmbeddingSettings,
    FeatureSettings,
    JointSettings,
    LogMelSettings,
    MfccSettings,
)
from fleet_protocol.numbers.arrays import Array, Floats


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

        Raises FeatureError if the samples are integers, not finite, none at all, or of a wrong rank.
        """


def open_front_end(settings: FeatureSettings) -> FrontEnd:
    """Return the front end of some settings.

    Raises FeatureError if the settings contradict themselves, are of a kind that this version does not know, or name a
    network of which only the digest is known; ModelError if no runtime can take the front end's network.
    """
    if isinstance(settings, MfccSettings):
        return Mfcc(settings)
    if isinstance(settings, LogMelSettings):
        return LogMel(settings)
    if isinstance(settings, EmbeddingSettings):
        return Embedding(settings)
    if isinstance(settings, JointSettings):
        return JointEmbedding(settings)
    raise FeatureError(f"no front end computes features of the kind {settings.kind!r}; update the software")


class Sliding(Protocol):
    """Computes what a front end would of each window of a stream, from window to window."""

    def reset(self) -> None:
        """Forget the last window: the next one does not lie one hop after it."""

    def __call__(self, window: Floats) -> Floats:
        """Return float32 [frames, numbers per frame] of float32 [clip_samples], one hop after the last window."""


def hop_frames(settings: FeatureSettings, hop_s: float) -> int:
    """Return by how many whole frames, at most a clip, a window follows the one before at a hop of so many seconds."""
    return min(max(1, round(hop_s / settings.hop_s)), settings.frames)


def open_sliding(settings: FeatureSettings, hop_frames: int) -> Sliding:
    """Return the sliding form of a front end, for windows, as long as a clip, that lie so many frames apart."""
    if isinstance(settings, EmbeddingSettings):
        return SlidingEmbedding(settings, hop_frames)
    if isinstance(settings, JointSettings):
        return SlidingJointEmbedding(settings, hop_frames)
    return SlidingFeatures(settings, hop_frames)


class SlidingEmbedding:
    """A window's log-mel features are computed as far as they are new; the network sees the whole window."""

    def __init__(self, settings: EmbeddingSettings, hop_frames: int) -> None:
        self._log_mel = SlidingFeatures(settings.log_mel, hop_frames)
        self._embedding = shared_embedding(settings)

    def reset(self) -> None:
        """Forget the last window: the next one does not lie one hop after it."""
        self._log_mel.reset()

    def __call__(self, window: Floats) -> Floats:
        """Return float32 [frames, numbers] of float32 [clip_samples], one hop after the last window."""
        embedding: Floats = self._embedding.of_log_mel(self._log_mel(window)[None])[0]
        return embedding


class SlidingJointEmbedding:
    """Both networks of a joint front end: that of words hears the end of every window, that of sounds some windows.

    Those lie half a window apart; its numbers stay in between. In households of ESC-50 no more sounds are missed so.
    """

    def __init__(self, settings: JointSettings, hop_frames: int) -> None:
        self._every = max(1, round(settings.clip_s / 2 / (hop_frames * settings.hop_s)))
        self._said = settings.words.clip_samples
        self._words = SlidingEmbedding(settings.words, hop_frames)
        self._sounds = SlidingEmbedding(settings.sounds, min(self._every * hop_frames, settings.frames))
        self._since = 0  # windows since sounds were heard last, that one too; 0: none was

    def reset(self) -> None:
        """Forget the last window: the next one does not lie one hop after it."""
        self._words.reset()
        self._sounds.reset()
        self._since = 0

    def __call__(self, window: Floats) -> Floats:
        """Return float32 [1, numbers of both] of float32 [clip_samples], one hop after the last window."""
        if self._since in (0, self._every):
            self._heard, self._since = self._sounds(window), 0
        self._since += 1
        return np.concatenate([self._words(window[-self._said :]), self._heard], axis=-1)


class SlidingFeatures:
    """Computes what the settings' front end would of each window, from window to window."""

    def __init__(self, settings: FeatureSettings, hop_frames: int) -> None:
        self._settings = settings
        self._hop = hop_frames
        self._whole = open_front_end(settings)
        span = (settings.frames - 1) * settings.hop_samples + settings.window_samples
        # The first frame of the newest ones lacks its predecessor's last sample, so one more is computed and left out.
        self._pays = hop_frames + 2 < settings.frames and span <= settings.clip_samples
        self._first = open_front_end(part_of_settings(settings, 1))
        self._newest = open_front_end(part_of_settings(settings, hop_frames + 1))
        self._newest_start = (settings.frames - hop_frames - 1) * settings.hop_samples
        self._features = np.zeros(settings.shape, np.float32)
        self._known = False

    def reset(self) -> None:
        """Forget the last window: the next one does not lie one hop after it."""
        self._known = False

    def __call__(self, window: Floats) -> Floats:
        """Return float32 [frames, numbers per frame] of float32 [clip_samples], one hop after the last window."""
        if not (self._pays and self._known):
            self._features = self._whole(window)
            self._known = True
            return self._features.copy()
        features, hop = self._features, self._hop
        features[:-hop] = features[hop:]
        features[0] = self._first(window[: self._settings.window_samples])[0]
        features[-hop:] = self._newest(window[self._newest_start :])[1:]
        return features.copy()


def part_of_settings(settings: FeatureSettings, frames: int) -> FeatureSettings:
    """Return settings of clips that have so many frames, computed in the same way."""
    span = (frames - 1) * settings.hop_samples + settings.window_samples
    return dataclasses.replace(settings, frames=frames, clip_s=span / settings.sample_rate_hz)
