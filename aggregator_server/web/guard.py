"""What the server does about requests that it refuses: it notes them in the audit, and slows their senders down.

Whoever has the right token is never made to wait, so nobody can lock a neighbour behind the same router out. Tokens
hold 256 random bits: the limit does not protect them from guesses, it keeps the audit and the log readable.
"""

import asyncio
import ipaddress
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from fastapi import Request

from aggregator_server import limits
from aggregator_server.errors import AggregatorError, TooManyError
from aggregator_server.fleet.audit import Actor, What, audit
from aggregator_server.store import Store
from aggregator_server.store.failures import ADDRESSES, Failures
from fleet_protocol.addresses import network_of


@dataclass(frozen=True)
class Verdict:
    """What becomes of a failed authentication.

    Attributes:
        wait_s: Seconds that the address has to wait; 0: none.
        begins: Whether the wait begins with this failure.
    """

    wait_s: float = 0.0
    begins: bool = False


class FailedAuthentications:
    """Counts failures by network address; any thread may call it.

    In memory, and in the database where other servers count too. What goes there is bounded: an address that waits is
    not asked about, and only so many failures of all addresses are in a minute; those beyond it count here alone.
    """

    def __init__(self, share: Callable[[str], tuple[float, bool] | None] = lambda _: None) -> None:
        """Make one.

        Args:
            share: counts a failure of a network for all servers; returns (seconds that it has to wait, whether the wait
                begins), or None where there is no other server or the database does not answer.
        """
        self._share = share
        self._lock = threading.Lock()
        self._addresses: dict[str, Failures] = {}
        self._shared, self._shared_since = 0, 0.0

    def add(self, address: str, now: float) -> Verdict:
        """Count a failure. The eleventh in a minute makes the address wait a minute, and each next time twice as long.

        Args:
            address: IPv4 or IPv6 address; a network of 64 bits counts as one, for its owner has all of it.
            now: seconds, on a clock that is never set.
        """
        network = network_of(address)
        with self._lock:
            found = self._of(network, now)
            if now < found.until:
                return Verdict(found.until - now)
            may_share = self._may_share(now)
        shared = self._share(network) if may_share else None
        with self._lock:
            begins = found.add(now)
            if shared is not None:
                wait_s, begins = shared
                found.until = now + wait_s
            return Verdict(max(0.0, found.until - now), begins)

    def _may_share(self, now: float) -> bool:
        if now - self._shared_since >= _MINUTE_S:
            self._shared, self._shared_since = 0, now
        self._shared += 1
        return self._shared <= limits.FAILURES_SHARED_PER_MINUTE

    def _of(self, key: str, now: float) -> Failures:
        found = self._addresses.pop(key, None)
        if found is None or found.is_forgotten(now):
            found = Failures(now, now)
        self._addresses[key] = found  # the newest last
        if len(self._addresses) > ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        return found


class NotedFailures:
    """Says which failures get an entry of the audit, and counts the others; any thread may call it.

    Entries stay for ever, and anybody can fail. The bounds are those of aggregator_server/limits.py.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = 0.0
        self._noted: Counter[str] = Counter()  # by address, as few as there are entries
        self._more = 0
        self._more_from: set[str] = set()

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
            if len(self._more_from) < ADDRESSES:
                self._more_from.add(network)
            return False

    def take_more(self, now: float, *, ends: bool) -> tuple[int, int]:
        """Return (failures that were counted, their addresses), once, when their time is over.

        At once where the server ``ends``.
        """
        with self._lock:
            if not ends and not self._is_over(now):
                return 0, 0
            more = self._more, len(self._more_from)
            self._more, self._more_from = 0, set()
            return more

    def _is_over(self, now: float) -> bool:
        return now - self._began >= limits.REFUSALS_NOTED_S


_AGAIN_S = _MINUTE_S = 60.0
_REVOKED_AGAIN_S = 3_600.0
_KEYS = 10_000
_log = logging.getLogger(__name__)


class Guard:
    """Notes refused requests; a flood of the same ones leaves few entries."""

    def __init__(self, store: Store) -> None:
        self._tables = store
        self._failures = FailedAuthentications(store.count_failure)
        self._noted_failures = NotedFailures()
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}

    def refuse(self, request: Request, error: AggregatorError) -> NoReturn:
        """Refuse a request whose token is wrong.

        Raises:
            AggregatorError: ``error`` itself.
            TooManyError: the address failed too often, and has to wait.
        """
        actor = caller(request, "somebody")
        verdict = self._failures.add(actor.address or "", time.monotonic())
        if verdict.wait_s:
            if verdict.begins:
                self._note_failure("limit_hit", actor, limit="failed authentications", wait_s=verdict.wait_s)
            raise TooManyError(
                f"too many requests with wrong tokens came from {actor.address}; the next one is looked at in "
                f"{verdict.wait_s:.0f} s. Requests with the right token are answered as ever",
                verdict.wait_s,
            ) from error
        where = f"{request.method} {request.url.path}"
        self._note_failure("authentication_failed", actor, request=where[:200], reason=error.code)
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
        failures, addresses = self._noted_failures.take_more(time.monotonic(), ends=ends)
        if failures:
            self._note("authentication_failed", Actor("somebody"), more=failures, addresses=addresses)

    def _note_failure(self, what: What, actor: Actor, **details: str | float | None) -> None:
        """Note what anybody can cause, within the bounds of aggregator_server/limits.py."""
        self.note_more()
        if self._noted_failures.admit(actor.address or "", time.monotonic()):
            self._note(what, actor, **details)

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
