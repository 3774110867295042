"""The requests that the server refuses, in the audit: few entries, however many there are.

Tokens hold 256 random bits, so nobody guesses one, and whoever tries need not be slowed down.
"""

import asyncio
import ipaddress
import logging
import threading
import time
from collections import Counter
from typing import NoReturn

from fastapi import Request

from aggregator_server import limits
from aggregator_server.errors import AggregatorError
from aggregator_server.fleet.audit import Actor, What, audit
from aggregator_server.store import Store
from fleet_protocol.addresses import network_of


class NotedFailures:
    """Says which failures get an entry of the audit, and counts the others; any thread may call it.

    Entries stay for ever, and anybody can fail. The bounds are those of aggregator_server/limits.py.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0.0
        self._noted: Counter[str] = Counter()  # by address, as few as there are entries
        self._more = 0

    def admit(self, address: str, now: float) -> bool:
        """Say whether a failure gets an entry; count it where it does not.

        Args:
            address: IPv4 or IPv6 address; a network of 64 bits counts as one.
            now: seconds, on a clock that is never set.
        """
        network = network_of(address)
        with self._lock:
            if not self._noted or self._is_over(now):
                self._noted.clear()
                self._began = now
            of_address = self._noted[network]
            if self._noted.total() < limits.REFUSALS_NOTED and of_address < limits.REFUSALS_NOTED_OF_ADDRESS:
                self._noted[network] += 1
                return True
            self._more += 1
            return False

    def take_more(self, now: float, *, ends: bool) -> int:
        """Return how many failures were counted, once, when their time is over; at once where the server ``ends``."""
        with self._lock:
            if not ends and not self._is_over(now):
                return 0
            more, self._more = self._more, 0
            return more

    def _is_over(self, now: float) -> bool:
        return now - self._began >= limits.REFUSALS_NOTED_S


_AGAIN_S = 60.0
_REVOKED_AGAIN_S = 3_600.0
_KEYS = 10_000
_log = logging.getLogger(__name__)


class Guard:
    """Notes refused requests; a flood of the same ones leaves few entries."""

    def __init__(self, store: Store) -> None:
        self._tables = store
        self._noted_failures = NotedFailures()
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}

    def refuse(self, request: Request, error: AggregatorError) -> NoReturn:
        """Refuse a request whose token is wrong.

        Raises:
            AggregatorError: ``error`` itself.
        """
        where = f"{request.method} {request.url.path}"
        self._note_failure(caller(request, "somebody"), where[:200], error.code)
        raise error

    def note_revoked(self, actor: Actor) -> None:
        """Note that a revoked device asked again, once an hour: it may ask for ever."""
        if self._is_due(f"revoked {actor.who}", _REVOKED_AGAIN_S):
            self._note("authentication_failed", actor, reason="device_revoked")

    def note_limit(self, actor: Actor, limit: str) -> None:
        """Note that a limit was hit, once a minute for each caller."""
        if self._is_due(f"{limit} {actor.who}", _AGAIN_S):
            self._note("limit_hit", actor, limit=limit)

    def _is_due(self, key: str, seconds: float) -> bool:
        now = time.monotonic()
        with self._lock:
            last = self._noted.pop(key, None)
            due = last is None or now - last >= seconds
            self._noted[key] = now if due or last is None else last
            if len(self._noted) > _KEYS:
                del self._noted[next(iter(self._noted))]
            return due

    async def run(self) -> None:
        """Note now and then what :meth:`note_more` does, until cancelled."""
        while True:
            await asyncio.sleep(min(_AGAIN_S, limits.REFUSALS_NOTED_S))
            try:
                await asyncio.to_thread(self.note_more)
            except Exception:
                _log.exception("failed authentications could not be noted in the audit")

    def note_more(self, *, ends: bool = False) -> None:
        """Note how many failures had no entry of their own, once their time is over, or where the server ends."""
        failures = self._noted_failures.take_more(time.monotonic(), ends=ends)
        if failures:
            self._note("authentication_failed", Actor("somebody"), more=failures)

    def _note_failure(self, actor: Actor, request: str, reason: str) -> None:
        """Note what anybody can cause, within the bounds of aggregator_server/limits.py."""
        self.note_more()
        if self._noted_failures.admit(actor.address or "", time.monotonic()):
            self._note("authentication_failed", actor, request=request, reason=reason)

    def _note(self, what: What, actor: Actor, **details: str | float | None) -> None:
        with self._tables.writing() as session:
            audit(session, what, actor, time.time(), **details)


def caller(request: Request, who: str) -> Actor:
    """Return who calls, with the address of the request."""
    return Actor(who, client_address(request))


def client_address(request: Request) -> str | None:
    """Return the network address that a request comes from, as the proxy says it where there is one.

    What is no address is left out: a proxy may pass on whatever its client wrote.
    """
    host = request.client.host if request.client else ""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None
