"""How long this side waits for PostgreSQL: a connection may be silent for ever while its packets are acknowledged.

Each wait has an end by this machine's clock. The first that reaches it ends all others too, and the pool takes new
connections: what is silent is the way, or the database as a whole.
"""

import math
import select
import time
from collections.abc import Generator
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

_FRESH_S = 1.0  # after its last use, in which a connection is not pinged
_ANSWER_S = 3.0  # for a ping, and for what is asked while a connection is made
_SILENT_S = 10.0  # in which a server that ends connects no more
_CONNECT_S = 5  # to connect, and to be let in
_PAUSE_S = 1.0  # after a connection that could not be made in that time


class Deadlines:
    """The waits on all connections of an engine, from when it is made for it."""

    def __init__(self, engine: Engine, statement_s: float) -> None:
        """Watch a new engine; ``statement_s`` for an answer is more than the database itself gives a statement."""
        self._statement_s = statement_s
        self._silent_at = self._again_at = -math.inf
        self._ends_from, self._most_s = math.inf, math.inf  # when the program ends, and how long it then waits

        @event.listens_for(engine, "do_connect")
        def connect(_: object, __: object, arguments: Any, options: dict[str, Any]) -> Any:  # noqa: ANN401
            return self._connect(arguments, options)

        @event.listens_for(engine, "connect")
        def allow_statements(connection: Any, _: object) -> None:  # noqa: ANN401  (psycopg's own)
            connection.wait_s = self._statement_s

        @event.listens_for(engine, "checkin")
        def note_use(_: object, entry: ConnectionPoolEntry) -> None:
            entry.info["used_at"] = time.monotonic()

        @event.listens_for(engine, "checkout")
        def require_alive(connection: Any, entry: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401
            used_at = entry.info.get("used_at")
            is_fresh = used_at is None or used_at > max(self._silent_at, time.monotonic() - _FRESH_S)
            if used_at is None or (is_fresh and not _has_arrived(connection.fileno())):
                return
            connection.wait_s = _ANSWER_S
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError(str(error)) from None
            connection.wait_s = self._statement_s

    def hurry(self, seconds: float) -> None:
        """Wait no longer than some seconds for any answer from now on, for the program ends."""
        self._most_s, self._ends_from = seconds, time.monotonic()

    def note_silence(self) -> None:
        """End all waits now: the database does not answer."""
        self._silent_at = time.monotonic()

    def is_over(self, began: float, seconds: float) -> bool:
        """Say whether a wait is over that began at some time and may take some seconds; then all others are too."""
        if began > self._silent_at:
            if time.monotonic() < min(began + seconds, max(began, self._ends_from) + self._most_s):
                return False
            self.note_silence()
        return True

    def _connect(self, arguments: Any, options: dict[str, Any]) -> Any:  # noqa: ANN401  (psycopg's own)
        import psycopg

        now = time.monotonic()
        if now < self._again_at or (self._ends_from < now and now - self._silent_at < _SILENT_S):
            raise psycopg.OperationalError("it gave no answer a moment ago")
        try:
            connection = _bounded().connect(*arguments, connect_timeout=_CONNECT_S, **options)
        except psycopg.OperationalError:
            if time.monotonic() - now >= _CONNECT_S:
                self.note_silence()
                self._again_at = time.monotonic() + _PAUSE_S
            raise
        connection.deadlines = self
        return connection


def bound(connection: Connection, seconds: float) -> None:
    """Have all that a connection asks from now on be answered in some seconds."""
    driver: Any = connection.connection.dbapi_connection
    driver.wait_s = seconds


@cache
def _bounded() -> Any:  # noqa: ANN401  (psycopg is optional)
    import psycopg

    class Bounded(psycopg.Connection[Any]):
        """A connection whose waits end."""

        deadlines: Deadlines | None = None
        wait_s = _ANSWER_S

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            return super().wait(self._ending(gen), *arguments, **options)

        def _ending(self, gen: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401
            """Pass on what psycopg waits for; ten times a second it says that nothing is ready."""
            began = time.monotonic()
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and self.deadlines is not None and self.deadlines.is_over(began, self.wait_s):
                        self.close()
                        raise psycopg.OperationalError(f"no answer in {time.monotonic() - began:.1f} s")
                    wanted = gen.send(ready)
            except StopIteration as ended:
                return ended.value

    return Bounded


def _has_arrived(socket: int) -> bool:
    waiting = select.poll()
    waiting.register(socket, select.POLLIN)
    return bool(waiting.poll(0))
