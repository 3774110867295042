"""Flushing the disk for many requests at once: each would wait for one of its own, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.to_thread


class Flusher:
    """Waits until what was committed is durable. It belongs to the event loop that uses it.

    One flush runs at a time. Whoever comes meanwhile is served by the next one, with all others who wait for it.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        """Make one.

        Args:
            flush: makes durable whatever was committed before it was called; may take a while.
        """
        self._flush = flush
        self._thread = anyio.CapacityLimiter(1)
        self._waiting: list[asyncio.Future[None]] = []
        self._running: asyncio.Task[None] | None = None

    async def flushed(self) -> None:
        """Wait for a flush that begins after this was called.

        Raises:
            OSError: the disk refuses.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        await waiter

    async def _run(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            error: Exception | None = None
            try:
                await anyio.to_thread.run_sync(self._flush, limiter=self._thread)
            except Exception as raised:  # every request that waits raises it
                error = raised
            for waiter in waiting:
                if waiter.done():  # its request was cancelled
                    continue
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)
        self._running = None
