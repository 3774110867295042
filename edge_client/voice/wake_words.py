"""A wake-word service of the Wyoming protocol: Home Assistant's voice waits for a word that the owner taught.

A satellite sends the sound of its own microphone; this program says when a word was in it. It listens with the model of
the daemon, takes up what the daemon learns, and keeps no sound.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, cast

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Attribution, Describe, Info, WakeModel, WakeProgram
from wyoming.ping import Ping, Pong
from wyoming.server import AsyncEventHandler
from wyoming.wake import Detect, Detection, NotDetected

from edge_client.errors import EdgeError
from edge_client.events import Event as DeviceEvent
from edge_client.logs import RateLimitedLog
from edge_client.voice.streams import Listening, Stream
from fleet_protocol.ground.command_line import version

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger(__name__)
_trouble = RateLimitedLog(log)

# Bytes of one event's document or sound: seconds of sound, of which a satellite sends 0.1 s at a time, 3.2 kB.
_LARGEST = 1 << 19
# Each stream has a model of its own in memory. Whoever asks, and Home Assistant does every minute, has no stream.
_MOST_STREAMS = 4
_MOST_CONNECTIONS = 32
# Home Assistant's satellites send sound all the time while they wait for a word, and begin anew after each.
_IDLE_S = 60.0
# What a home may take to say who heard a word best; it answers within the window, and two seconds where it is lost.
_HOME_S = 10.0
# Names that are remembered so that the log says once that nobody knows them.
_MOST_MISSED = 100


class Connections:
    """Every connection of the service, in the event loop's thread alone."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.streaming: set[WakeWords] = set()
        self._all: list[WakeWords] = []
        self._missed: set[str] = set()

    async def enter(self, one: WakeWords) -> None:
        """Take a connection; the one that was quiet longest, and has no stream, gives way where there are too many."""
        self._all.append(one)
        if len(self._all) > _MOST_CONNECTIONS:
            quiet = min((other for other in self._all if other not in self.streaming), key=lambda other: other.heard_s)
            self._all.remove(quiet)
            await quiet.stop()

    def leave(self, one: WakeWords) -> None:
        """Forget a connection, and its stream."""
        self.streaming.discard(one)
        with contextlib.suppress(ValueError):
            self._all.remove(one)

    def begin_stream(self, one: WakeWords) -> None:
        """Give a connection a place for its stream. Raises ValueError if there is none."""
        if one not in self.streaming and len(self.streaming) >= _MOST_STREAMS:
            raise ValueError(f"{_MOST_STREAMS} satellites stream their sound already")
        self.streaming.add(one)

    def warn_of_unknown(self, names: Iterable[str], labels: tuple[str, ...]) -> None:
        """Log, once each, for which words a satellite waits that are no labels, as after one was renamed."""
        self._missed -= set(labels)
        for name in set(names) - set(labels) - self._missed:
            if len(self._missed) < _MOST_MISSED:
                self._missed.add(name)
                log.warning(
                    "a satellite waits for %.100r, which is not listened for (renamed or forgotten?); choose one of "
                    "these in the voice assistant's settings: %s",
                    name,
                    ", ".join(labels) or "none yet, teach one",
                )


class WakeWords(AsyncEventHandler):
    """One connection. ``heard_s``: when sound came last, else when it began, on the monotonic clock."""

    def __init__(self, connections: Connections, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(cast("asyncio.StreamReader", _BoundedReader(reader)), writer)
        self._connections, self._listening = connections, connections.listening
        self._names: tuple[str, ...] = ()
        self._stream: Stream | None = None
        peer = writer.get_extra_info("peername") or ("satellite", id(self))
        self._ear = ":".join(map(str, peer[:2]))
        self._detected = False
        self.heard_s = time.monotonic()

    async def run(self) -> None:
        """Answer until the client goes, or sends what is no event."""
        try:
            await self._connections.enter(self)
            await super().run()
        except (ConnectionError, asyncio.IncompleteReadError):
            log.info("a client left")
        except TimeoutError:
            log.info("a client was silent for %g s and was closed", _IDLE_S)
            self.writer.transport.abort()  # it may not read either
        except (AttributeError, KeyError, RecursionError, TypeError) as error:  # what its library makes of no event
            _trouble.warning("a client sent what is no event: %s", type(error).__name__)
        finally:
            self._connections.leave(self)
            self.writer.close()

    async def stop(self) -> None:
        """End the connection at once, also where the client does not read."""
        await super().stop()
        self.writer.transport.abort()

    async def write_event(self, event: Event) -> None:
        """Send an event. Raises TimeoutError if the client does not read for too long."""
        async with asyncio.timeout(_IDLE_S):
            await super().write_event(event)

    async def handle_event(self, event: Event) -> bool:
        """Answer one event; return whether there may be more: not after one that is refused."""
        try:
            await self._answer(event)
            # Else few clients that do no more than ping keep every place.
            if time.monotonic() - self.heard_s > _IDLE_S:
                raise ValueError(f"no sound came for {_IDLE_S:g} s")
        except (EdgeError, ValueError, KeyError, TypeError) as error:
            _trouble.warning("a client's event was refused: %s", error)
            await self.write_event(Error(str(error), "refused").event())
            return False
        return True

    async def _answer(self, event: Event) -> None:
        if AudioChunk.is_type(event.type):
            await self._hear(AudioChunk.from_event(event))
        elif Describe.is_type(event.type):
            await self.write_event(self._info(await asyncio.to_thread(self._listening.labels)).event())
        elif Detect.is_type(event.type):
            self._end_stream()
            self._names = tuple(map(str, Detect.from_event(event).names or ()))
            self._connections.warn_of_unknown(self._names, await asyncio.to_thread(self._listening.labels))
        elif AudioStart.is_type(event.type):  # some satellites send none; each chunk says its format itself
            self._end_stream()
            await asyncio.to_thread(self._listening.require_awake)
        elif AudioStop.is_type(event.type):
            detected = self._detected
            self._end_stream()
            if not detected:
                await self.write_event(NotDetected().event())
        elif Ping.is_type(event.type):
            await self.write_event(Pong(text=Ping.from_event(event).text).event())

    async def _hear(self, chunk: AudioChunk) -> None:
        if self._stream is None:
            await asyncio.to_thread(self._listening.require_awake)
            self._connections.begin_stream(self)
            self._stream = await asyncio.to_thread(Stream, self._listening)
        if chunk.audio:
            self.heard_s = time.monotonic()
        heard = await asyncio.to_thread(self._stream.push, chunk)
        self._connections.warn_of_unknown(self._names, self._stream.labels)
        for found, snr_db in heard:
            wanted = not self._names or found.label in self._names
            if wanted and await self._is_best(found, snr_db):
                self._detected = True
                await self.write_event(Detection(name=found.label, timestamp=chunk.timestamp).event())

    async def _is_best(self, found: DeviceEvent, snr_db: float) -> bool:
        """Return whether no other satellite of the home heard a word better; they are asked for less than a second."""
        home = self._listening.home
        if home is None:
            return True
        asked = home.say("wake", found, self._ear, snr_db)
        try:
            async with asyncio.timeout(_HOME_S):
                return home.is_best(await asyncio.wrap_future(asked), self._ear)
        except TimeoutError:
            _trouble.warning("the home did not say which satellite heard %r best", found.label)
            return True

    def _end_stream(self) -> None:
        self._stream, self._detected = None, False
        self._connections.streaming.discard(self)

    def _info(self, labels: tuple[str, ...]) -> Info:
        about: dict[str, Any] = {"attribution": Attribution("Auricle", ""), "installed": True, "version": version()}
        models = [WakeModel(name=label, description=label, languages=[], phrase=label, **about) for label in labels]
        # Home Assistant calls its entry, and the entity that is chosen from, by this name.
        name = self._listening.config.device.name
        return Info(wake=[WakeProgram(name=name, description="words and sounds of Auricle", models=models, **about)])


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
