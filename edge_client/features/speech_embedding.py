"""Google's speech embedding (Lin et al. 2020): what a frozen network that knows speech makes of a clip.

The network makes a column of 96 numbers every 80 ms, of the 76 mel frames before. It works as a stream: it takes eight
new frames at a time, and carries what it must remember. A clip's features are the mean of the columns of the clip with
silence before and behind it; so it matters little where in the clip the sound lies.
"""

from __future__ import annotations

import threading

import numpy as np

from edge_client.errors import FeatureError
from edge_client.features.samples import require_network, require_samples
from edge_client.features.speech_mel import BANDS, HOP_SAMPLES, PART_FRAMES, RATE_HZ, span, speech_mel
from edge_client.model.interpreter import StreamingNetwork
from fleet_protocol.arrays import Array, Floats
from fleet_protocol.feature_settings import SpeechEmbeddingSettings

_PART_SAMPLES = PART_FRAMES * HOP_SAMPLES
_WARM_UP = 9
"""Parts after which, and with the one that is new, a column hears nothing of what was before them."""


class SpeechEmbedding:
    """Computes the features that some settings describe; may be shared by threads."""

    def __init__(self, settings: SpeechEmbeddingSettings) -> None:
        """Open the network.

        Raises:
            FeatureError: only the digest of the network is known, or the settings do not fit it.
            ModelError: this machine has no runtime, or the runtime cannot take the network.
        """
        self.settings = settings
        self._columns = _Columns(settings)
        self._lock = threading.Lock()
        # Parts at the beginning that hear nothing of the clip.
        self._silent = max(0, (_lead(settings) - span(1)) // _PART_SAMPLES + 1)

    def __call__(self, samples: Array) -> Floats:
        """Compute the features of one clip or of many.

        Args:
            samples: as of :meth:`edge_client.features.log_mel.LogMel.__call__`.

        Returns:
            float32 [1, numbers] or [clips, 1, numbers].

        Raises:
            FeatureError: the samples are integers, not finite, none at all, or of a wrong rank.
        """
        samples = require_samples(samples)
        clips = np.atleast_2d(samples)
        found = np.empty((len(clips), *self.settings.shape), np.float32)
        for clip, into in zip(clips, found, strict=True):
            parts = clip_parts(clip, self.settings)[self._silent :]
            with self._lock:
                self._columns.begin()
                into[0] = self._columns.of(parts)[-self.settings.frames :].mean(axis=0)
        return found.reshape(*samples.shape[:-1], *self.settings.shape)


class SlidingSpeechEmbedding:
    """Computes only the columns of a stream that are new.

    A clip stands between silence; a window of a stream stands between what was before and, because nobody knows what
    comes, its own end. So a sound has the features that it has as a clip when :func:`delay_s` has passed.
    """

    def __init__(self, settings: SpeechEmbeddingSettings, hop_frames: int) -> None:
        """Open the network; ``hop_frames`` columns lie between a window and the next."""
        self._settings = settings
        self._hop = hop_frames
        self._stream = _Columns(settings)
        self._parts = -(-(settings.clip_samples - span(1)) // _PART_SAMPLES) + 1  # that hold a window
        self.reset()

    def reset(self) -> None:
        """Forget the last window: silence stands before the next one."""
        self._known = False

    def __call__(self, window: Floats) -> Floats:
        """Return float32 [1, numbers] of float32 [clip_samples], one hop after the last window."""
        parts = self._hop
        if not self._known or span(parts) > len(window):
            self._stream.begin()
            self._recent = np.tile(self._stream.silence, (self._settings.frames, 1))
            parts = self._parts
        heard = np.pad(window[-span(parts) :], (max(0, span(parts) - len(window)), 0))
        columns = np.concatenate([self._recent, self._stream.of(speech_mel(heard))])
        self._recent = columns[-self._settings.frames :]
        self._known = True
        features: Floats = self._recent.mean(axis=0, keepdims=True)
        return features


class _Columns:
    """Computes the columns of one stream at a time.

    Attributes:
        silence: Column of silence, float32 [1, numbers].
    """

    def __init__(self, settings: SpeechEmbeddingSettings) -> None:
        self._network = StreamingNetwork(require_network(settings))
        shapes = (settings.sample_rate_hz, settings.hop_samples, self._network.part_shape, self._network.column_shape)
        known = (RATE_HZ, _PART_SAMPLES, (PART_FRAMES, BANDS), (settings.numbers,))
        if shapes != known or settings.frames < 1:
            raise FeatureError(
                f"the front end's network and its settings do not fit: {shapes} instead of {known}, and at least one "
                f"frame; given {settings.describe()}"
            )
        self._state = self._network.start
        silence = speech_mel(np.zeros(span(_WARM_UP + 1), np.float32))
        self.silence = self.of(silence)[-1:]
        self._silent_state = self._state

    def begin(self) -> None:
        """Begin a stream, before which is silence."""
        self._state = self._silent_state

    def of(self, parts: Floats) -> Floats:
        """Return the columns of the stream's next parts: float32 [parts, 8, 32] -> [parts, numbers]."""
        columns, self._state = self._network.step(parts, self._state)
        return columns


def clip_parts(clip: Array, settings: SpeechEmbeddingSettings) -> Floats:
    """Return the mel features of a clip between silence, float32 [9 + frames, 8, 32].

    Args:
        clip: [samples] in -1..1; cropped at its end, or padded, to the settings' length.
        settings: say how many columns follow the nine parts that the first column needs besides its own.
    """
    heard = np.zeros(span(_WARM_UP + settings.frames), clip.dtype)
    lead = _lead(settings)
    given = min(len(clip), settings.clip_samples, len(heard) - lead)
    heard[lead : lead + given] = clip[:given]
    return speech_mel(heard)


def delay_s(settings: SpeechEmbeddingSettings) -> float:
    """Return how long after the end of a sound's clip a stream has the clip's features, s."""
    return (span(_WARM_UP + settings.frames) - settings.clip_samples - _lead(settings)) / settings.sample_rate_hz


def _lead(settings: SpeechEmbeddingSettings) -> int:
    """Return the samples of silence before a clip."""
    return max(0, (span(_WARM_UP + settings.frames) - settings.clip_samples) // 2)
