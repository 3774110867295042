"""Whether a pooled connection to PostgreSQL is alive, at a fraction of what a ping before each use costs."""

import select
import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

_FRESH_S = 1.0  # after its last use


def replace_dead(engine: Engine) -> None:
    """Have an engine replace all connections of its pool where one that it is about to use has ended.

    One that was used a moment ago is not pinged, unless something arrived on it meanwhile, as its end does.
    """

    @event.listens_for(engine, "checkin")
    def note_use(_: object, entry: ConnectionPoolEntry) -> None:
        entry.info["used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def require_alive(connection: Any, entry: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401  (psycopg's own)
        used_at = entry.info.get("used_at")
        if used_at is None or (time.monotonic() - used_at < _FRESH_S and not _has_arrived(connection.fileno())):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError(str(error)) from None


def _has_arrived(socket: int) -> bool:
    waiting = select.poll()
    waiting.register(socket, select.POLLIN)
    return bool(waiting.poll(0))
