"""A recording session that a browser follows: it begins with a request, and ends at the latest with its connection."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from edge_client.clips.recorder import Step
from edge_client.errors import EdgeError
from edge_client.owner import Teaching
from fleet_protocol.errors import AuricleError

log = logging.getLogger(__name__)

# Seconds between two levels that a browser gets.
_LEVEL_S = 0.1


class _LeftError(EdgeError):
    """Whoever recorded stopped, or closed the page."""


class _Follower:
    """A :class:`edge_client.clips.recorder.Display` whose steps a browser shows."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        self.queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._loop = loop
        self._stop = stop
        self._shown = 0.0

    def put(self, line: dict[str, Any] | None) -> None:
        """Hand a line to the browser; None ends the session."""
        self._loop.call_soon_threadsafe(self.queue.put_nowait, line)

    def step(self, step: Step) -> None:
        """Show a step."""
        self._require_wanted()
        self.put({"step": dataclasses.asdict(step)})

    def say(self, text: str) -> None:
        """Do nothing: the page has its own words for every step."""

    def level(self, text: str, level_db: float) -> None:  # noqa: ARG002  (the page shows the step beside it)
        """Show the level."""
        self._require_wanted()
        if time.monotonic() - self._shown >= _LEVEL_S:
            self._shown = time.monotonic()
            self.put({"level_db": round(level_db, 1)})

    def _require_wanted(self) -> None:
        if self._stop.is_set():
            raise _LeftError("stopped")


async def record(teaching: Teaching, label: str, count: int) -> AsyncIterator[str]:
    """Record takes as `auricle-edge record` does; yield a line of JSON for every step, and one with the result.

    Args:
        teaching: the device.
        label: of ``Teaching.require_slot``.
        count: how many takes are wanted.
    """
    stop = threading.Event()
    follower = _Follower(asyncio.get_running_loop(), stop)
    threading.Thread(target=_session, args=(teaching, label, count, follower), daemon=True, name="record").start()
    try:
        while (line := await follower.queue.get()) is not None:
            yield json.dumps(line) + "\n"
    finally:
        stop.set()


def _session(teaching: Teaching, label: str, count: int, follower: _Follower) -> None:
    """Record, in a thread of its own."""
    error = ""
    try:
        teaching.record(label, count, None, follower)
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
