"""The journal: every event, in the device's database, within a limit of age and size.

It is flushed at every event: after a power cut or SIGKILL it holds every event that was written. While the disk is
full, events are lost and counted; the device listens on.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from dataclasses import dataclass
from typing import Any

from edge_client.errors import StateError
from edge_client.events import Event, Sink
from edge_client.events.delivery import Delivery
from edge_client.logs import RateLimitedLog
from edge_client.storage.ages import DAY_S, FIRST_CLOCK_S
from edge_client.storage.database import VERSION, WAL_PAGES, Database

log = logging.getLogger(__name__)

_PRUNE_EVERY = 100
_GRACE_S = 5.0
COLUMNS = "time, kind, label, class_id, score, level_db, ended, input, guess"


class Journal(Sink):
    """Stores events; several processes may have the same journal open."""

    def __init__(self, database: Database, days: float = 90.0, megabytes: float = 50.0) -> None:
        """Open or create. A full disk is logged, :meth:`stored` says so, and each event is another attempt.

        Events go at an age in days; the oldest go where the database has more ``megabytes`` (10^6 bytes).
        """
        self._database = database
        self._keep_s = days * DAY_S
        self._bytes = megabytes * 1e6
        self._since_pruned = 0
        self._lock = threading.Lock()
        self._log = RateLimitedLog(log)
        self._open: tuple[int, sqlite3.Connection] | None = None
        self._trouble = ""
        self._lost = 0
        self._probing = False
        self._delivery: Delivery[Event | None] = Delivery("the journal", self._write)
        self._write(None)

    def publish(self, event: Event) -> None:
        """Queue an event to be written."""
        self._delivery.put(event)

    def follow(self, event: Event) -> None:
        """Queue the end of a sound, which is written beside its event."""
        if event.ended is not None:
            self._delivery.put(event)

    def stored(self) -> dict[str, Any]:
        """Say whether events can be written; where they cannot, have that tried again."""
        found = {"trouble": self._trouble, "lost": self._lost + self._delivery.dropped}
        if self._trouble and not self._probing:
            self._probing = True
            self._delivery.put(None)
        return found

    def close(self) -> None:
        """Write what waits, and close."""
        if self._delivery.close(_GRACE_S):
            with self._lock:
                self._disconnect()

    def _write(self, event: Event | None) -> None:
        """Write an event, or find out whether one could be written."""
        try:
            with self._lock, self._database.errors():
                connection = self._connection()
                if event is not None:
                    self._put(connection, event)
                elif self._trouble:
                    connection.execute(f"PRAGMA user_version = {VERSION}")  # it writes a page
        except (StateError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if not self._trouble:
                self._log.warning("cannot write the journal %s: %s; events are lost", self._database.path, reason)
            self._trouble = reason  # before the loss is counted: whoever sees a loss sees why
            self._lost += event is not None and event.ended is None
            with self._lock:
                self._disconnect()  # one that found the disk read-only stays so
        else:
            if self._trouble:
                log.info("the journal %s takes events again; %d were lost", self._database.path, self._lost)
            self._trouble = ""
        self._probing = False

    def _connection(self) -> sqlite3.Connection:
        """Return the connection, a new one where the file is another one: it was damaged, and put aside."""
        path = self._database.path
        if self._open is None or not path.exists() or path.stat().st_ino != self._open[0]:
            self._disconnect()
            connection = self._database.open()
            self._open = path.stat().st_ino, connection
            self._prune(connection)
        return self._open[1]

    def _disconnect(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _put(self, database: sqlite3.Connection, event: Event) -> None:
        if event.ended is not None:
            which = (event.ended, event.time, event.kind, event.label, event.input)
            database.execute(
                "UPDATE events SET ended = ? WHERE time = ? AND kind = ? AND label = ? AND input = ?", which
            )
            return
        database.execute(
            f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?)",
            (
                *(event.time, event.kind, event.label, event.class_id),
                *(event.score, event.level_db, event.input, event.guess),
            ),
        )
        self._since_pruned += 1
        if self._since_pruned >= _PRUNE_EVERY:
            self._prune(database)

    def _prune(self, database: sqlite3.Connection) -> None:
        """Delete what is too old, and the oldest tenth for as long as the file is too large."""
        self._since_pruned = 0
        execute, now = database.execute, time.time()
        # A time that cannot have been tells no age: such an event goes with the next one that came and is too old.
        old = (FIRST_CLOCK_S, now - self._keep_s)
        ((last,),) = execute("SELECT COALESCE(MAX(id), 0) FROM events WHERE time BETWEEN ? AND ?", old)
        likely = (FIRST_CLOCK_S, now + DAY_S)
        execute("DELETE FROM events WHERE id <= ? AND time NOT BETWEEN ? AND ?", (last, *likely))
        execute("DELETE FROM events WHERE time BETWEEN ? AND ?", old)
        _shrink(database)
        others = execute("SELECT COALESCE(SUM(LENGTH(moves)), 0) FROM renamings").fetchone()[0]
        others += execute("SELECT COALESCE(SUM(LENGTH(embedding)), 0) FROM questions").fetchone()[0]
        page = execute("PRAGMA page_size").fetchone()[0]
        while (execute("PRAGMA page_count").fetchone()[0] + WAL_PAGES) * page > self._bytes + others:
            oldest_tenth = "SELECT MIN(id) + (MAX(id) - MIN(id)) / 10 FROM events"
            deleted = execute(f"DELETE FROM events WHERE id <= ({oldest_tenth})").rowcount
            _shrink(database)
            if not deleted:
                return


def _shrink(database: sqlite3.Connection) -> None:
    """Give freed pages back. (``execute`` would give back a single one: it stops where there are no rows.)"""
    database.executescript("PRAGMA incremental_vacuum")


@dataclass(frozen=True)
class Chosen:
    """Which events are meant; what is None is not asked for.

    ``since`` and ``until``: seconds since 1970, of which the first is included; ``least``: score, 0..1.
    """

    since: float = 0.0
    until: float = 1e12
    label: str | None = None
    kind: str | None = None
    input: str | None = None
    least: float | None = None

    def where(self) -> tuple[str, tuple[object, ...]]:
        """Return the condition of a query, and its values."""
        asked = {"label = ?": self.label, "kind = ?": self.kind, "input = ?": self.input, "score >= ?": self.least}
        given = {part: value for part, value in asked.items() if value is not None}
        return " AND ".join(["time >= ?", "time < ?", *given]), (self.since, self.until, *given.values())


ALL = Chosen()


def past_events(database: Database, limit: int, chosen: Chosen = ALL) -> list[Event]:
    """Return the newest of the chosen events, in their order. Raises as :class:`Database`."""
    where, values = chosen.where()
    query = f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY id DESC LIMIT ?"
    return [Event(*row) for row in reversed(database.rows(query, (*values, limit)))]


def remove_events(database: Database, chosen: Chosen) -> int:
    """Remove the chosen events; return how many these were. Raises as :class:`Database`."""
    where, values = chosen.where()
    if not database.rows(f"SELECT 1 FROM events WHERE {where} LIMIT 1", values):
        return 0
    with database.changing() as connection:
        removed = connection.execute(f"DELETE FROM events WHERE {where}", values).rowcount
    database.erase()
    return removed
