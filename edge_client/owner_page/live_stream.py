"""Hands what the daemon shares to every browser that has the page open, as server-sent events.

One thread reads for all, and only while there is a viewer: the daemon then computes nothing for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from edge_client.live.reader import LiveReader
from edge_client.storage.device_state import DeviceState

# Pages that may be open at once.
MAX_VIEWERS = 8
# Hops that may wait for a slow browser; it then misses some.
_MAX_WAITING = 40
_TIMEOUT_S = 1.0
UNBUFFERED = {"x-accel-buffering": "no"}  # a proxy passes on what is streamed as it comes


class _Viewed(StreamingResponse):
    """The stream of a page, which is counted until it ends, also where its browser is gone before it begins.

    Its events are hops, and about once a second why there are none.
    """

    def __init__(self, viewers: set[asyncio.Queue[str]], queue: asyncio.Queue[str]) -> None:
        super().__init__(_forever(queue), headers=UNBUFFERED, media_type="text/event-stream")
        self._viewers = viewers
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._viewers.discard(self._queue)


class LiveStream:
    """The one reader of the daemon's feed, and its viewers; of one event loop."""

    def __init__(self, folder: Path) -> None:
        """Prepare to read what the daemon of a state folder shares."""
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
        """Read until there is no viewer any more."""
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
        running = reader.connected or self._state.locked("daemon")
        return _event("state", {"state": "silent" if running else "off"})

    def _publish(self, event: str) -> None:
        for queue in self._viewers:
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(event)


async def _forever(queue: asyncio.Queue[str]) -> AsyncIterator[str]:
    while True:
        yield await queue.get()


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
