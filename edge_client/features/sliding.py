"""The features of a window that slides over a stream, of which only what is new is computed.

A clip's frames do not depend on one another, except that pre-emphasis knows no sample before the clip's first. So
frame 0 of cepstra belongs to one window alone, and every other frame is the same in all windows that hold it.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from edge_client.features.embedding import Embedding
from edge_client.features.front_end import open_front_end
from edge_client.features.speech_embedding import SlidingSpeechEmbedding
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import EmbeddingSettings, FeatureSettings, SpeechEmbeddingSettings


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
    """Return the sliding form of a front end.

    Args:
        settings: of the features; the window is a clip.
        hop_frames: frames by which each window lies after the one before.

    Raises:
        FeatureError, ModelError: see :func:`edge_client.features.front_end.open_front_end`.
    """
    if isinstance(settings, EmbeddingSettings):
        return SlidingEmbedding(settings, hop_frames)
    if isinstance(settings, SpeechEmbeddingSettings):
        return SlidingSpeechEmbedding(settings, hop_frames)
    return SlidingFeatures(settings, hop_frames)


class SlidingEmbedding:
    """A window's log-mel features are computed as far as they are new; the network sees the whole window."""

    def __init__(self, settings: EmbeddingSettings, hop_frames: int) -> None:
        self._log_mel = SlidingFeatures(settings.log_mel, hop_frames)
        self._embedding = Embedding(settings)

    def reset(self) -> None:
        """Forget the last window: the next one does not lie one hop after it."""
        self._log_mel.reset()

    def __call__(self, window: Floats) -> Floats:
        """Return float32 [frames, numbers] of float32 [clip_samples], one hop after the last window."""
        embedding: Floats = self._embedding.of_log_mel(self._log_mel(window)[None])[0]
        return embedding


class SlidingFeatures:
    """Computes what the settings' front end would of each window, from window to window."""

    def __init__(self, settings: FeatureSettings, hop_frames: int) -> None:
        """Prepare.

        Args:
            settings: of the features; the window is a clip.
            hop_frames: frames by which each window lies after the one before.
        """
        self._settings = settings
        self._hop = hop_frames
        self._whole = open_front_end(settings)
        span = (settings.frames - 1) * settings.hop_samples + settings.window_samples
        # The first frame of the newest ones lacks its predecessor's last sample, so one more is computed and left out.
        self._pays = hop_frames + 2 < settings.frames and span <= settings.clip_samples
        self._first = open_front_end(_part(settings, 1))
        self._newest = open_front_end(_part(settings, hop_frames + 1))
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


def _part(settings: FeatureSettings, frames: int) -> FeatureSettings:
    """Return the settings of clips that are so many frames long."""
    span = (frames - 1) * settings.hop_samples + settings.window_samples
    return dataclasses.replace(settings, frames=frames, clip_s=span / settings.sample_rate_hz)
