"""What the server does about requests that it refuses: it notes them in the audit, and slows them down."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import threading
import time
from typing import NoReturn

from fastapi import Request

from aggregator_server import limits
from aggregator_server.errors import AggregatorError, TooManyError
from aggregator_server.fleet.audit import Actor, What, audit
from aggregator_server.store import Tables
from aggregator_server.web.transport.failures import FailedAuthentications, NotedFailures

_AGAIN_S = 60.0
_REVOKED_AGAIN_S = 3_600.0
_KEYS = 10_000
_log = logging.getLogger(__name__)


class Guard:
    """Notes refused requests; a flood of the same ones leaves few entries."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._failures = FailedAuthentications()
        self._noted_failures = NotedFailures()
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}

    def refuse(self, request: Request, error: AggregatorError) -> NoReturn:
        """Refuse a request whose token is wrong.

        Raises:
            AggregatorError: ``error`` itself.
            TooManyError: the address failed too often, and is told to wait.
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
        self._note_failure("authentication_failed", actor, request=where[:200], reason=type(error).code)
        raise error

    def note_revoked(self, actor: Actor) -> None:
        """Note that a revoked device came back, once an hour: it may ask for ever."""
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
        more = self._noted_failures.take_more(time.monotonic(), ends=ends)
        if more.failures:
            details = {"more": more.failures, "addresses": more.addresses}
            self._note("authentication_failed", Actor("somebody"), **details)

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
