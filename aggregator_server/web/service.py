"""The service behind all routes: what they share, and how they work in threads and flush the disk together."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError

from aggregator_server.errors import RefusedError
from aggregator_server.limits import DEVICES_NEEDED, DEVICES_PER_MINUTE, READY_S
from aggregator_server.rounds.scheduler import Notifier, RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store.free_space import free_space
from aggregator_server.store.needed_blobs import one_lasting
from aggregator_server.store.store import Store
from aggregator_server.web.refused_requests import RefusedRequests

_log = logging.getLogger(__name__)


class Flusher:
    """Waits until what was committed is durable. It belongs to the event loop that uses it.

    One flush runs at a time. Whoever comes meanwhile is served by the next one, with all others who wait for it.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        """Make one. ``flush``: makes durable whatever was committed before it was called; may take a while."""
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


_NO_BLOB = "0" * 64  # asked for to hear whether the store answers


class Readiness:
    """Says whether the server can do its work, for load balancers. It belongs to the event loop that uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # One thread of its own: one that hangs must take none from others, and those that wait for it run out of time.
        self._thread = anyio.CapacityLimiter(1)
        self._problem = ""

    async def require(self) -> None:
        """Check that the database and the store can be used. Raises RefusedError: they cannot."""
        problem = f"the database or the store gave no answer in {READY_S:g} s"
        with anyio.move_on_after(READY_S):
            problem = await anyio.to_thread.run_sync(self._try, limiter=self._thread, abandon_on_cancel=True)
        if problem and problem != self._problem:
            _log.error("not ready: %s", problem)
        self._problem = problem
        if problem:
            raise RefusedError("not_ready", "this server cannot use its database or its store; its log says why")

    def _try(self) -> str:
        try:
            self._store.database.require_writable()
            with self._store.reading() as session:
                needed = one_lasting(session)
            free_space(self._store.blobs.folder)
            is_there = self._store.blobs.exists(needed or _NO_BLOB)
        except (SQLAlchemyError, OSError) as error:
            return str(error)
        if is_there or needed is None:
            return ""
        return f"{self._store.blobs.shown(needed)}, which the fleet needs, is missing; is the share mounted?"


T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What whoever runs the server asks of devices."""

    devices_per_minute: int = DEVICES_PER_MINUTE  # number of new devices that one token may bring in a minute
    approve: bool = False  # whether an operator has to admit new devices
    devices_needed: int = DEVICES_NEEDED  # number of devices that must have sent a class before others listen for it
    authority: str | None = None  # certificate of the server's own authority, PEM; None where it has none


@dataclass(frozen=True)
class Service:
    """The state behind the routes."""

    store: Store
    tokens: Tokens
    new_work: Notifier  # notifies waiting devices that there may be work for them
    scheduler: RoundScheduler  # moves the open round forward
    refused_requests: RefusedRequests  # notes and slows down what is refused
    terms: Terms
    device_threads: anyio.CapacityLimiter  # threads that serve devices; other requests have threads of their own
    disk_threads: anyio.CapacityLimiter  # threads that wait for the disk to have uploads
    flusher: Flusher  # makes what is noted for devices durable
    readiness: Readiness  # says whether this server can do its work

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
