"""A wake-word service of the Wyoming protocol: Home Assistant's voice waits for a word that the owner taught.

A satellite sends the sound of its own microphone; this program says when a word was in it. It listens with the model of
the daemon, takes up what the daemon learns, and keeps no sound.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Attribution, Describe, Info, WakeModel, WakeProgram
from wyoming.ping import Ping, Pong
from wyoming.server import AsyncEventHandler
from wyoming.wake import Detect, Detection, NotDetected

from edge_client.audio.resampling import StreamResampler
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Detector, Loaded
from edge_client.errors import EdgeError
from fleet_protocol.command_line import version

if TYPE_CHECKING:
    from fleet_protocol.arrays import Floats

log = logging.getLogger(__name__)

# Bytes of one event's document or sound; a satellite sends 0.1 s at a time, 3.2 kB.
_LARGEST = 1 << 20
# Each has a model of its own in memory.
_MOST_CLIENTS = 4
# Home Assistant's satellites send sound all the time while they wait for a word, and begin anew after each.
_IDLE_S = 60.0


class Stream:
    """The sound of one satellite, from its start to its end, and the detector on it."""

    def __init__(self, loaded: Loaded, config: DetectorConfig, start: AudioStart) -> None:
        """Begin. Raises EdgeError if the rate cannot be converted, ValueError if the sound is not 16-bit PCM."""
        if start.width != 2 or start.channels < 1:
            raise ValueError(f"the sound must be 16-bit PCM, not {8 * start.width}-bit in {start.channels} channels")
        self._channels = start.channels
        self._detector = Detector(loaded, config)
        self._resampler = StreamResampler(start.rate, self._detector.sample_rate_hz)

    def push(self, audio: bytes) -> list[str]:
        """Take 16-bit PCM; return the labels that were heard in it."""
        frames = len(audio) // (2 * self._channels)
        pcm = np.frombuffer(audio, "<i2", frames * self._channels).reshape(frames, self._channels)
        samples: Floats = pcm.mean(axis=1, dtype=np.float32) / np.float32(32_768)
        heard = self._detector.push(self._resampler.push(samples))
        return [one.event.label for one in heard if one.event.kind == "detected"]


class WakeWords(AsyncEventHandler):
    """One connection."""

    _open = 0

    def __init__(
        self,
        load: Callable[[], Loaded],
        config: DetectorConfig,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Take a connection; ``name``: the device's, under which Home Assistant lists the service."""
        super().__init__(cast("asyncio.StreamReader", _BoundedReader(reader)), writer)
        self._load = load
        self._config = config
        self._name = name
        self._names: Sequence[str] = ()
        self._stream: Stream | None = None
        self._detected = False
        self._heard_s = time.monotonic()

    async def run(self) -> None:
        """Answer until the client goes, or sends what is no event."""
        WakeWords._open += 1
        try:
            if WakeWords._open > _MOST_CLIENTS:
                await self.write_event(Error(f"{_MOST_CLIENTS} clients are connected already", "busy").event())
                return
            await super().run()
        except (ConnectionError, asyncio.IncompleteReadError):
            log.info("a client left")
        except TimeoutError:
            log.info("a client was silent for %g s and was closed", _IDLE_S)
        except (AttributeError, KeyError, RecursionError, TypeError) as error:  # what its library makes of no event
            log.warning("a client sent what is no event: %s", type(error).__name__)
        finally:
            WakeWords._open -= 1
            self.writer.close()

    async def handle_event(self, event: Event) -> bool:
        """Answer one event; return whether there may be more: not after one that is refused."""
        try:
            await self._answer(event)
            # Else few clients that do no more than ping keep every place.
            if time.monotonic() - self._heard_s > _IDLE_S:
                raise ValueError(f"no sound came for {_IDLE_S:g} s")
        except (EdgeError, ValueError, KeyError, TypeError) as error:
            log.warning("a client's event was refused: %s", error)
            await self.write_event(Error(str(error), "refused").event())
            return False
        return True

    async def _answer(self, event: Event) -> None:
        if AudioChunk.is_type(event.type):
            await self._hear(AudioChunk.from_event(event))
        elif Describe.is_type(event.type):
            await self.write_event(self._info(await asyncio.to_thread(self._load)).event())
        elif Detect.is_type(event.type):
            self._names = Detect.from_event(event).names or ()
        elif AudioStart.is_type(event.type):
            loaded = await asyncio.to_thread(self._load)
            self._stream, self._detected = Stream(loaded, self._config, AudioStart.from_event(event)), False
        elif AudioStop.is_type(event.type):
            self._stream = None
            if not self._detected:
                await self.write_event(NotDetected().event())
        elif Ping.is_type(event.type):
            await self.write_event(Pong(text=Ping.from_event(event).text).event())

    async def _hear(self, chunk: AudioChunk) -> None:
        if self._stream is None:
            raise ValueError("audio-chunk arrived before audio-start")
        if chunk.audio:
            self._heard_s = time.monotonic()
        for label in await asyncio.to_thread(self._stream.push, chunk.audio):
            if not self._names or label in self._names:
                self._detected = True
                await self.write_event(Detection(name=label, timestamp=chunk.timestamp).event())

    def _info(self, loaded: Loaded) -> Info:
        about: dict[str, Any] = {"attribution": Attribution("Auricle", ""), "installed": True, "version": version()}
        models = [
            WakeModel(name=label, description=label, languages=[], phrase=label, **about)
            for label in loaded.label_map.labels
        ]
        what = "sounds and words that their owner taught"
        return Info(wake=[WakeProgram(name=self._name, description=what, models=models, **about)])


class _BoundedReader:
    """A connection from which nothing is read that is larger than an event may be, or that comes too late."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def readline(self) -> bytes:
        """Return a line of at most 64 KiB, as asyncio bounds it. Raises TimeoutError if it took too long."""
        async with asyncio.timeout(_IDLE_S):
            return await self._reader.readline()

    async def readexactly(self, count: int) -> bytes:
        """Return so many bytes. Raises ValueError if these are too many, TimeoutError if they took too long."""
        if not 0 <= count <= _LARGEST:
            raise ValueError(f"an event may have {_LARGEST:,} bytes, not {count:,}")
        async with asyncio.timeout(_IDLE_S):
            return await self._reader.readexactly(count)

    def feed_eof(self) -> None:
        self._reader.feed_eof()
