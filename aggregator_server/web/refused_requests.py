"""The requests that the server refuses, in the audit: few entries, however many there are.

Tokens hold 256 random bits, so nobody guesses one, and whoever tries need not be slowed down.
"""

import ipaddress
import math
import threading
import time
from collections import Counter
from typing import NoReturn

from fastapi import Request

from aggregator_server import limits
from aggregator_server.errors import AggregatorError
from aggregator_server.fleet.audit import Actor, What, audit
from aggregator_server.store.store import Store
from fleet_protocol.ground.addresses import network_of

_AGAIN_S = 60.0
_REVOKED_AGAIN_S = 3_600.0
_KEYS = 10_000


class RefusedRequests:
    """Notes refused requests; a flood of the same ones leaves few entries."""

    def __init__(self, store: Store) -> None:
        self._tables = store
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}
        self._failures: Counter[str] = Counter()  # that have an entry, of each network since ``_began``
        self._began = -math.inf

    def refuse(self, request: Request, error: AggregatorError) -> NoReturn:
        """Refuse a request whose token is wrong. Raises AggregatorError: ``error`` itself."""
        actor = caller(request, "somebody")
        if self.may_note(network_of(actor.address or "")):
            where = f"{request.method} {request.url.path}"
            self._note("authentication_failed", actor, request=where[:200], reason=error.code)
        raise error

    def may_note(self, network: str) -> bool:
        """Say whether a failure from a network gets an entry. Entries stay for ever, and anybody can fail."""
        now = time.monotonic()
        with self._lock:
            if now - self._began >= limits.REFUSALS_NOTED_S:
                self._failures.clear()
                self._began = now
            of_network = self._failures[network]
            if self._failures.total() >= limits.REFUSALS_NOTED or of_network >= limits.REFUSALS_NOTED_OF_ADDRESS:
                return False
            self._failures[network] += 1
            return True

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
