"""What the page gets line by line: what the daemon hears, as server-sent events, and the steps of a recording.

One thread reads the daemon's feed for all, and only while there is a viewer: the daemon then computes nothing for
nobody. A recording begins with a request, and ends at the latest with its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from edge_client.clips.recorder import Step, record_takes
from edge_client.daemon.status import read_status, why_silent
from edge_client.errors import ClipError, EdgeError, StateError
from edge_client.live import LiveReader
from edge_client.owner import Teaching
from edge_client.storage.device_state import DeviceState
from fleet_protocol.errors import AuricleError

log = logging.getLogger(__name__)

# Pages that may be open at once.
MAX_VIEWERS = 8
# Hops that may wait for a slow browser; it then misses some.
_MAX_WAITING = 40
_TIMEOUT_S = 1.0
UNBUFFERED = {"x-accel-buffering": "no"}  # a proxy passes on what is streamed as it comes
# Seconds between two levels that a browser gets.
_LEVEL_S = 0.1


class _Viewed(StreamingResponse):
    """A page's stream of hops, or why there are none, counted to its end, also if its browser is gone before."""

    def __init__(self, viewers: set[asyncio.Queue[str]], queue: asyncio.Queue[str]) -> None:
        super().__init__(_forever(queue), headers=UNBUFFERED, media_type="text/event-stream")
        self._viewers = viewers
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._viewers.discard(self._queue)


class LiveStream:
    """The one reader of the daemon's feed, and its viewers; of one event loop."""

    def __init__(self, folder: Path) -> None:
        self._state = DeviceState(folder)
        self._viewers: set[asyncio.Queue[str]] = set()
        self._thread: threading.Thread | None = None

    def open(self) -> Response | None:
        """Count one more page, and return what streams to it; None where too many are open."""
        if len(self._viewers) >= MAX_VIEWERS:
            return None
        queue: asyncio.Queue[str] = asyncio.Queue(_MAX_WAITING)
        self._viewers.add(queue)
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._read, args=[loop], daemon=True, name="live")
            self._thread.start()
        return _Viewed(self._viewers, queue)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        reader = LiveReader(self._state.folder)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the server with it
            try:
                while asyncio.run_coroutine_threadsafe(self._wanted(), loop).result():
                    loop.call_soon_threadsafe(self._publish, self._next(reader))
            finally:
                reader.close()

    async def _wanted(self) -> bool:
        """Return whether there is a viewer; where there is none, the next viewer starts another thread."""
        if not self._viewers:
            self._thread = None
        return self._thread is not None

    def _next(self, reader: LiveReader) -> str:
        try:
            moment = reader.read(_TIMEOUT_S)
        except PermissionError:
            return _event("state", {"state": "forbidden"})
        if moment is not None:
            return _event("moment", moment.to_json())
        if not (reader.connected or self._state.locked("daemon")):
            return _event("state", {"state": "off", "why": ""})
        try:
            status = read_status(self._state)
        except StateError:
            return _event("state", {"state": "silent", "why": ""})
        if status.get("paused"):  # which stands above every page
            return _event("state", {"state": "paused", "why": ""})
        return _event("state", {"state": "silent", "why": why_silent(status)})

    def _publish(self, event: str) -> None:
        for queue in self._viewers:
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(event)


async def _forever(queue: asyncio.Queue[str]) -> AsyncIterator[str]:
    while True:
        yield await queue.get()


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


class _LeftError(EdgeError):
    """Whoever recorded stopped, or closed the page."""


class _Follower:
    """A :class:`edge_client.clips.recorder.Display` whose steps a browser shows."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        self.queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._loop = loop
        self._stop = stop
        self._shown = 0.0
        self._unwanted: deque[int] = deque(maxlen=_MAX_WAITING)

    def put(self, line: dict[str, Any] | None) -> None:
        """Hand a line to the browser; None ends the session."""
        self._loop.call_soon_threadsafe(self.queue.put_nowait, line)

    def step(self, step: Step) -> None:
        self._require_wanted()
        self.put({"step": dataclasses.asdict(step)})

    def say(self, text: str) -> None:
        """Do nothing: the page has its own words for every step."""

    def level(self, text: str, level_db: float) -> None:  # noqa: ARG002  (the page shows the step beside it)
        self._require_wanted()
        if time.monotonic() - self._shown >= _LEVEL_S:
            self._shown = time.monotonic()
            self.put({"level_db": round(level_db, 1)})

    def discard(self, take: int) -> None:
        """Have a take discarded."""
        self._unwanted.append(take)

    def unwanted(self) -> int:
        return self._unwanted.popleft() if self._unwanted else 0

    def _require_wanted(self) -> None:
        if self._stop.is_set():
            raise _LeftError("stopped")


class Recording:
    """The recording that goes on, if any: the device has one microphone."""

    def __init__(self) -> None:
        self._follower: _Follower | None = None

    async def lines(self, teaching: Teaching, label: str, count: int) -> AsyncIterator[str]:
        """Record takes as `auricle-edge record` does; yield a line of JSON for every step, and one with the result."""
        stop = threading.Event()
        follower = _Follower(asyncio.get_running_loop(), stop)
        self._follower = self._follower or follower  # where there is one, this session finds the microphone in use
        threading.Thread(target=_session, args=(teaching, label, count, follower), daemon=True, name="record").start()
        try:
            while (line := await follower.queue.get()) is not None:
                yield json.dumps(line) + "\n"
        finally:
            stop.set()
            if self._follower is follower:
                self._follower = None

    def discard(self, take: int) -> None:
        """Have the take of a number discarded. Raises ClipError if nobody records."""
        if self._follower is None:
            raise ClipError("nobody records any more: the takes are undone under Sounds")
        self._follower.discard(take)


def _session(teaching: Teaching, label: str, count: int, follower: _Follower) -> None:
    error = ""
    try:
        record_takes(teaching.config, teaching.settings, teaching.store, label, count, None, follower)
    except _LeftError:
        log.info("the recording of %r was stopped", label)
    except (AuricleError, OSError) as problem:
        error = str(problem)
        log.warning("the recording of %r ended: %s", label, problem)
    try:
        follower.put({"done": {"takes": len(teaching.store.clips(label)), "error": error}})
        follower.put(None)
    except RuntimeError:  # the server ended meanwhile
        log.info("nobody follows the recording of %r any more", label)
