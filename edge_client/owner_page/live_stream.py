"""Hands what the daemon shares to every browser that has the page open, as server-sent events.

One thread reads for all, and only while somebody looks: the daemon then computes nothing for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from edge_client.live.reader import LiveReader
from edge_client.storage.device_state import DeviceState

# Pages that may be open at once.
MAX_VIEWERS = 8
# Hops that may wait for a slow browser; it then misses some.
_MAX_WAITING = 40
_TIMEOUT_S = 1.0


class LiveStream:
    """The one reader of the daemon's feed, and its viewers; of one event loop."""

    def __init__(self, folder: Path) -> None:
        """Prepare to read what the daemon of a state folder shares."""
        self._state = DeviceState(folder)
        self._viewers: set[asyncio.Queue[str]] = set()
        self._thread: threading.Thread | None = None

    def full(self) -> bool:
        """Return whether no more pages may be open."""
        return len(self._viewers) >= MAX_VIEWERS

    async def events(self) -> AsyncIterator[str]:
        """Yield server-sent events for as long as somebody looks: hops, and about once a second why there are none."""
        queue: asyncio.Queue[str] = asyncio.Queue(_MAX_WAITING)
        self._viewers.add(queue)
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._read, args=[loop], daemon=True, name="live")
            self._thread.start()
        try:
            while True:
                yield await queue.get()
        finally:
            self._viewers.discard(queue)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read until nobody looks any more."""
        reader = LiveReader(self._state.folder)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the server with it
            try:
                while asyncio.run_coroutine_threadsafe(self._wanted(), loop).result():
                    loop.call_soon_threadsafe(self._publish, self._next(reader))
            finally:
                reader.close()

    async def _wanted(self) -> bool:
        """Return whether anybody looks; where nobody does, the next viewer starts another thread."""
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


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
