"""The service behind all routes: what they share, and how they work in threads and flush the disk together."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from aggregator_server.limits import DEVICES_PER_MINUTE
from aggregator_server.rounds.computation import Compute
from aggregator_server.rounds.scheduler import Notifier, RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store import Store
from aggregator_server.web.guard import Guard


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
        """Wait for a flush that begins after this was called. Raises OSError: the disk refuses."""
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


T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What whoever runs the server asks of devices.

    Attributes:
        devices_per_minute: Number of new devices that one token may bring in a minute.
        approve: Whether an operator has to admit new devices.
        secret_days: Age in days at which a device's secret is to be changed; 0: never.
        authority: Certificate of the server's own authority, PEM; None where it has none.
    """

    devices_per_minute: int = DEVICES_PER_MINUTE
    approve: bool = False
    secret_days: float = 90.0
    authority: str | None = None


@dataclass(frozen=True)
class Service:
    """The state behind the routes.

    Attributes:
        new_work: Notifies waiting devices that there may be work for them.
        scheduler: Moves the open round forward.
        compute: Computes the result of a round, in a process of its own.
        guard: Notes and slows down what is refused.
        device_threads: Threads that serve devices; other requests have threads of their own.
        disk_threads: Threads that wait for the disk to have uploads.
        flusher: Makes what is noted for devices durable.
    """

    store: Store
    tokens: Tokens
    new_work: Notifier
    scheduler: RoundScheduler
    compute: Compute
    guard: Guard
    terms: Terms
    device_threads: anyio.CapacityLimiter
    disk_threads: anyio.CapacityLimiter
    flusher: Flusher

    async def for_device(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Run what a device asks for in a thread for devices."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self.device_threads)

    async def on_disk(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        """Run what mostly waits for the disk."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self.disk_threads)

    def wake(self) -> None:
        """Have the open round and the waiting devices checked anew."""
        self.scheduler.wake()
        self.new_work.notify()

    async def flushed(self) -> None:
        """Wait until all that was committed before is durable."""
        await self.flusher.flushed()
