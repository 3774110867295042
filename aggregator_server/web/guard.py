"""What the server does about requests that it refuses: it notes them in the audit, and slows them down."""

from __future__ import annotations

import threading
import time
from typing import NoReturn

from fastapi import Request

from aggregator_server.errors import AggregatorError, TooManyError
from aggregator_server.fleet.audit import Actor, What, audit
from aggregator_server.store import Tables
from aggregator_server.web.failures import FailedAuthentications

_AGAIN_S = 60.0
_REVOKED_AGAIN_S = 3_600.0
_KEYS = 10_000


class Guard:
    """Notes refused requests; a flood of the same ones leaves few entries."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._failures = FailedAuthentications()
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
                self._note("limit_hit", actor, limit="failed authentications", wait_s=verdict.wait_s)
            raise TooManyError(
                f"too many requests with wrong tokens came from {actor.address}; the next one is looked at in "
                f"{verdict.wait_s:.0f} s. Requests with the right token are answered as ever",
                verdict.wait_s,
            ) from error
        where = f"{request.method} {request.url.path}"
        self._note("authentication_failed", actor, request=where[:200], reason=type(error).code)
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

    def _note(self, what: What, actor: Actor, **details: str | float | None) -> None:
        with self._tables.writing() as session:
            audit(session, what, actor, time.time(), **details)


def caller(request: Request, who: str) -> Actor:
    """Return who calls, with the address of the request."""
    return Actor(who, request.client.host if request.client else None)
