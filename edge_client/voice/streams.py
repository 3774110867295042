"""The sound of a satellite, in whatever format each of its chunks has, and the detector on it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from edge_client.audio.level import OffsetFilter, rms_dbfs
from edge_client.audio.resampling import StreamResampler
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector, Loaded
from edge_client.errors import EdgeError
from edge_client.events import Event, Heard
from edge_client.home.broker_link import HomeLink
from edge_client.home.input_levels import Background
from edge_client.pauses import Pauses
from edge_client.storage.device_state import DeviceState
from fleet_protocol.errors import FeatureMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wyoming.audio import AudioChunk

    from edge_client.config import Config
    from fleet_protocol.numbers.arrays import Floats

log = logging.getLogger(__name__)

# Those of sound cards. A filter between other rates could take tens of megabytes.
RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400, 192_000)
_MOST_CHANNELS = 8
# Frames that are converted at once: what they become takes memory as floats at the model's rate, too.
_BLOCK = 4_096
# Seconds after which a stream looks whether the device learned something.
_FRESH_S = 10.0


class Listening:
    """What a device listens with now, for every stream. ``home``: with which other satellites are asked; None: none."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._state = DeviceState(config.device.state)
        # Raises PausedError where the device is paused: then no sound is taken; StateError, OSError.
        self.require_awake = Pauses(self._state.database, config.hours).require_awake
        device_id = "" if config.home is None else self._state.identity.load().device_id
        self.home = HomeLink.of(config, device_id, "wyoming")

    def load(self) -> Loaded:
        """Return a model of one's own, and its labels. Raises EdgeError."""
        return load_listening(self.config)

    def labels(self) -> tuple[str, ...]:
        """Return the labels that are listened for; the model is not loaded."""
        return self._state.model.heard_labels()

    def version(self) -> object:
        """Return what changes with the labels, and with the owner's choices about them. Raises EdgeError, OSError."""
        choices = self._state.choices
        return self._state.model.key(), choices.thresholds(), choices.off(time.time())


class Stream:
    """The sound of one satellite; used by one thread at a time. ``labels``: that are listened for."""

    def __init__(self, listening: Listening) -> None:
        """Begin. Raises EdgeError if the model cannot be loaded."""
        self._listening = listening
        self._version = listening.version()
        self._look_at = time.monotonic() + _FRESH_S
        self._begin(listening.load())

    def _begin(self, loaded: Loaded) -> None:
        self.labels = self._listening.labels()
        self._detector = Detector(loaded, self._listening.config.detector)
        self._rate_hz = self._detector.sample_rate_hz
        self._resampler = StreamResampler(self._rate_hz, self._rate_hz)
        self._offset = OffsetFilter(self._rate_hz)
        self._background = Background()

    def push(self, chunk: AudioChunk) -> list[tuple[Event, float]]:
        """Return what was detected in a chunk, and how far it is above the background, dB.

        Raises PausedError if the device is paused, ValueError if the chunk's format cannot be used.
        """
        self._listening.require_awake()
        self._take_what_was_learned()
        if chunk.rate not in RATES_HZ:
            raise ValueError(f"a sample rate of {chunk.rate!r:.40} Hz; use one of {', '.join(map(str, RATES_HZ))}")
        if chunk.rate != self._rate_hz:
            self._rate_hz = chunk.rate
            self._resampler = StreamResampler(chunk.rate, self._detector.sample_rate_hz)
        heard: list[Heard] = []
        for block in _blocks(chunk):
            samples = self._offset.push(self._resampler.push(block))
            self._background.take(rms_dbfs(samples), len(samples) / self._detector.sample_rate_hz)
            heard += self._detector.push(samples)
        self._detector.take_followed()
        events = [one.event for one in heard if one.event.kind == "detected"]
        return [(event, self._background.snr_db(event.level_db)) for event in events]

    def _take_what_was_learned(self) -> None:
        """Go on with other labels where the device has learned since: some satellites never end their stream."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _FRESH_S
        try:
            if (version := self._listening.version()) == self._version:
                return
            loaded = self._listening.load()
        except (EdgeError, OSError) as error:
            log.warning("a satellite is heard with what was learned before: %s", error)
            return
        self._version = version
        try:
            self._detector.adopt(loaded)
            self.labels = self._listening.labels()
        except FeatureMismatchError:  # another bundle, perhaps at another rate
            self._begin(loaded)


def _blocks(chunk: AudioChunk) -> Iterator[Floats]:
    """Yield a chunk's frames, each the mean of its channels in -1..1, float32 [any]."""
    if chunk.width not in (1, 2, 3, 4) or not 1 <= chunk.channels <= _MOST_CHANNELS:
        raise ValueError(
            f"the sound must be PCM of 1 to 4 bytes a sample in at most {_MOST_CHANNELS} channels, not of "
            f"{chunk.width!r:.40} bytes in {chunk.channels!r:.40}"
        )
    size = chunk.width * chunk.channels
    whole = len(chunk.audio) // size * size
    for start in range(0, whole, _BLOCK * size):
        levels = _levels(chunk.audio[start : min(start + _BLOCK * size, whole)], chunk.width)
        yield levels.reshape(-1, chunk.channels).mean(axis=1, dtype=np.float32)


def _levels(pcm: bytes, width: int) -> Floats:
    """Return little-endian samples of so many bytes in -1..1, float32 [any]; those of one byte are unsigned."""
    full_scale = np.float32(1 << (8 * width - 1))
    if width == 1:
        return (np.frombuffer(pcm, np.uint8).astype(np.float32) - full_scale) / full_scale
    if width == 3:
        wide = np.zeros((len(pcm) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(pcm, np.uint8).reshape(-1, 3)
        pcm, full_scale = wide.tobytes(), np.float32(1 << 31)
    return np.frombuffer(pcm, "<i2" if width == 2 else "<i4").astype(np.float32) / full_scale
