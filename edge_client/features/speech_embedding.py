"""Google's speech embedding (Lin et al. 2020): what a frozen network that knows speech makes of a clip.

Its mel features are those of the package's ``melspectrogram.tflite``: powers of periodic Hann windows in triangular
filters on Slaney's mel scale (Slaney 1998, Auditory Toolbox), each filter divided by its width; in dB, none more than
80 dB below the loudest of its part of eight frames; then dB / 10 + 2.

The network makes a column of 96 numbers every 80 ms, of the 76 mel frames before. It works as a stream: it takes the
eight frames of a part at a time, and carries what it must remember. A clip's features are the mean of the columns of
the clip with silence before and behind it; so it matters little where in the clip the sound lies.
"""

from __future__ import annotations

import functools
import threading

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edge_client.errors import FeatureError
from edge_client.features.samples import of_each_clip, require_network
from edge_client.model.interpreter import StreamingNetwork
from fleet_protocol.arrays import Array, Doubles, Floats
from fleet_protocol.feature_settings import SpeechEmbeddingSettings

BANDS = 32
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400
PART_FRAMES = 8
RATE_HZ = 16_000
_FFT_SIZE = 512
_LOW_HZ, _HIGH_HZ = 60.0, 3_800.0
_LINEAR_HZ, _LINEAR_MELS = 1_000.0, 15.0
_LOG_STEP = np.log(6.4) / 27.0
_FULL_SCALE = 32_768.0  # the network learned from 16-bit numbers
_FLOOR, _RANGE_DB = 1e-10, 80.0
_PART_SAMPLES = PART_FRAMES * HOP_SAMPLES
_WARM_UP = 9
"""Parts after which, and with the one that is new, a column hears nothing of what was before them."""


def span(parts: int) -> int:
    """Return the samples that so many parts of eight frames hear."""
    return (PART_FRAMES * parts - 1) * HOP_SAMPLES + WINDOW_SAMPLES


def speech_mel(samples: Array) -> Floats:
    """Return the features of a stretch of sound, [span(parts)] in -1..1 at 16 kHz: float32 [parts, 8, 32]."""
    windows = sliding_window_view(samples, WINDOW_SAMPLES)[::HOP_SAMPLES]
    spectrum = np.fft.rfft(windows * _window(), _FFT_SIZE)
    power = np.maximum((spectrum.real**2 + spectrum.imag**2) @ _filters(), _FLOOR)
    decibels = 10 * np.log10(power).reshape(-1, PART_FRAMES, BANDS)
    decibels = np.maximum(decibels, decibels.max(axis=(1, 2), keepdims=True) - _RANGE_DB)
    features: Floats = (decibels / 10 + 2).astype(np.float32)
    return features


@functools.cache
def _window() -> Doubles:
    turns = np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES
    return np.asarray(_FULL_SCALE * (0.5 - 0.5 * np.cos(2 * np.pi * turns)))


@functools.cache
def _filters() -> Doubles:
    """Return the filters, float64 [257, 32]."""
    edges = _hz(np.linspace(_mels(_LOW_HZ), _mels(_HIGH_HZ), BANDS + 2))
    bins = np.arange(_FFT_SIZE // 2 + 1)[:, None] * RATE_HZ / _FFT_SIZE
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * 2 / (right - left))


def _mels(hz: float) -> float:
    """Return Slaney's mels: linear up to 1 kHz, logarithmic above."""
    if hz < _LINEAR_HZ:
        return _LINEAR_MELS * hz / _LINEAR_HZ
    return float(_LINEAR_MELS + np.log(hz / _LINEAR_HZ) / _LOG_STEP)


def _hz(mels: Doubles) -> Doubles:
    linear = mels * _LINEAR_HZ / _LINEAR_MELS
    return np.where(mels < _LINEAR_MELS, linear, _LINEAR_HZ * np.exp((mels - _LINEAR_MELS) * _LOG_STEP))


class SpeechEmbedding:
    """Computes the features that some settings describe; may be shared by threads."""

    def __init__(self, settings: SpeechEmbeddingSettings) -> None:
        """Open the network.

        Raises FeatureError if only the digest of the network is known, or the settings do not fit it; ModelError if
        this machine has no runtime, or the runtime cannot take the network.
        """
        self.settings = settings
        self._columns = _Columns(settings)
        self._lock = threading.Lock()
        # Parts at the beginning that hear nothing of the clip.
        self._silent = max(0, (_lead(settings) - span(1)) // _PART_SAMPLES + 1)

    def __call__(self, samples: Array) -> Floats:
        """Return float32 [1, numbers] of a clip, or [clips, 1, numbers] of many.

        Samples and errors are those of :meth:`edge_client.features.front_end.FrontEnd.__call__`.
        """
        return of_each_clip(samples, self.settings.shape, self._mean_column)

    def _mean_column(self, clip: Array) -> Array:
        parts = clip_parts(clip, self.settings)[self._silent :]
        with self._lock:
            self._columns.begin()
            return np.asarray(self._columns.of(parts)[-self.settings.frames :].mean(axis=0))


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
    """Computes the columns of one stream at a time. ``silence``: Column of silence, float32 [1, numbers]."""

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
    return max(0, (span(_WARM_UP + settings.frames) - settings.clip_samples) // 2)
