"""The objects that the routes of a running server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from aggregator_server.limits import DEVICES_PER_MINUTE
from aggregator_server.rounds.computation import Compute
from aggregator_server.rounds.notifier import Notifier
from aggregator_server.rounds.scheduler import RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store import Store
from aggregator_server.web.guard import Guard
from aggregator_server.web.transport.flusher import Flusher

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
        store: The fleet's tables and blobs.
        tokens: The administrator's and the enrolment token.
        new_work: Notifies waiting devices that there may be work for them.
        scheduler: Moves the open round forward.
        compute: Computes the result of a round, in a process of its own.
        guard: Notes and slows down what is refused.
        terms: Terms for devices, by whoever runs the server.
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
