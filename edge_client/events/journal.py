"""The journal: every event, in SQLite, within a limit of age and size; readable by the daemon's user alone.

Write-ahead logging with a flush at every commit: after a power cut or SIGKILL it holds every event that was written.
While the disk is full, events are lost and counted; the device listens on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from edge_client.errors import StateError
from edge_client.events import Event, SinkDevice, SinkKind, Stored
from edge_client.events.delivery import Delivery
from edge_client.logs import RateLimitedLog
from fleet_protocol.full_disk import is_full

log = logging.getLogger(__name__)

# File in the state folder.
JOURNAL = "journal.sqlite3"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    label TEXT NOT NULL,
    class_id TEXT,
    score REAL NOT NULL,
    level_db REAL NOT NULL,
    ended REAL,
    input TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS events_by_time ON events (time);
"""
# Columns that older releases had not, and what they are added as.
_ADDED = {"ended": "REAL", "input": "TEXT NOT NULL DEFAULT ''"}
# What SQLite says when the disk or another process is in the way; anything else is damage.
_OF_THE_DISK = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}
# The log that is written ahead counts towards the limit too, so it must stay small.
_WAL_PAGES = 64
_PRUNE_EVERY = 100
_GRACE_S = 5.0
_DAY_S = 86_400.0


class Journal:
    """A :class:`edge_client.events.Sink`; several processes may have the same journal open."""

    def __init__(self, path: Path, days: float = 90.0, megabytes: float = 50.0) -> None:
        """Open or create; a file that is damaged is put aside, because listening matters more than its past.

        Where the disk is full or fails, this is logged, :meth:`stored` says so, and each event is another attempt.

        Args:
            days: age at which events are deleted.
            megabytes: size (10^6 bytes) above which the oldest events are deleted.
        """
        self.path = path
        self._keep_s = days * _DAY_S
        self._bytes = megabytes * 1e6
        self._since_pruned = 0
        self._lock = threading.Lock()
        self._log = RateLimitedLog(log)
        self._database: sqlite3.Connection | None = None
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

    def stored(self) -> Stored:
        """Say whether events can be written; where they cannot, have that tried again."""
        found = Stored(self._trouble, self._lost + self._delivery.dropped)
        if self._trouble and not self._probing:
            self._probing = True
            self._delivery.put(None)
        return found

    def close(self) -> None:
        """Write what waits, and close."""
        if self._delivery.close(_GRACE_S):
            with self._lock:
                if self._database is not None:
                    self._database.close()

    def _write(self, event: Event | None) -> None:
        """Write an event, or find out whether one could be written."""
        try:
            with self._lock:
                if self._database is None:
                    self._database = _opened(self.path)
                    self._prune(self._database)
                if event is not None:
                    self._put(self._database, event)
                elif self._trouble:
                    self._database.execute("PRAGMA user_version = 0")  # it writes a page
        except (sqlite3.Error, OSError) as error:
            self._lost += event is not None and event.ended is None
            reason = _reason(error, self.path)
            if not self._trouble:
                self._log.warning("cannot write the journal %s: %s; events are lost", self.path, reason)
            self._trouble = reason
        else:
            if self._trouble:
                log.info("the journal %s takes events again; %d were lost", self.path, self._lost)
            self._trouble = ""
        self._probing = False

    def _put(self, database: sqlite3.Connection, event: Event) -> None:
        if event.ended is not None:
            which = (event.ended, event.time, event.kind, event.label, event.input)
            database.execute(
                "UPDATE events SET ended = ? WHERE time = ? AND kind = ? AND label = ? AND input = ?", which
            )
            return
        database.execute(
            "INSERT INTO events (time, kind, label, class_id, score, level_db, input) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (event.time, event.kind, event.label, event.class_id, event.score, event.level_db, event.input),
        )
        self._since_pruned += 1
        if self._since_pruned >= _PRUNE_EVERY:
            self._prune(database)

    def _prune(self, database: sqlite3.Connection) -> None:
        """Delete what is too old, and the oldest tenth for as long as the file is too large."""
        self._since_pruned = 0
        execute = database.execute
        execute("DELETE FROM events WHERE time < ?", (time.time() - self._keep_s,))
        _shrink(database)
        page = execute("PRAGMA page_size").fetchone()[0]
        while (execute("PRAGMA page_count").fetchone()[0] + _WAL_PAGES) * page > self._bytes:
            deleted = execute(
                "DELETE FROM events WHERE id <= (SELECT MIN(id) + (MAX(id) - MIN(id)) / 10 FROM events)"
            ).rowcount
            _shrink(database)
            if not deleted:
                return


def _shrink(database: sqlite3.Connection) -> None:
    """Give freed pages back. (``execute`` would give back a single one: it stops where there are no rows.)"""
    database.executescript("PRAGMA incremental_vacuum")


def past_events(path: Path, limit: int, since: float = 0.0, label: str | None = None) -> list[Event]:
    """Return the newest events of a journal, oldest first, also while a daemon writes it; ``since``: seconds since
    1970.

    Raises StateError if the journal is damaged, or cannot be read.
    """
    columns = _columns(path)
    if not columns:
        return []
    ended = "ended" if "ended" in columns else "NULL"  # of an older release
    given = "input" if "input" in columns else "''"
    query = f"SELECT time, kind, label, class_id, score, level_db, {ended}, {given} FROM events WHERE time >= ?"  # noqa: S608
    query += "" if label is None else " AND label = ?"
    values = (since, limit) if label is None else (since, label, limit)
    rows = _ask(path, f"{query} ORDER BY time DESC, id DESC LIMIT ?", values)
    return [Event(*row) for row in reversed(rows)]


def forget_events(path: Path, label: str) -> int:
    """Remove the past events of a label from a journal; return how many these were.

    Raises StateError if the journal is damaged, or cannot be changed.
    """
    if not _columns(path):
        return 0
    ((found,),) = _ask(path, "SELECT COUNT(*) FROM events WHERE label = ?", (label,))
    _ask(path, "DELETE FROM events WHERE label = ?", (label,))
    return int(found)


def _columns(path: Path) -> list[str]:
    """Return the names of the columns; none where there is no table, as where the disk had no room for it."""
    return [row[1] for row in _ask(path, "PRAGMA table_info(events)", ())]


def _ask(path: Path, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
    if not path.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=5.0, isolation_level=None)) as database:
            database.execute("PRAGMA secure_delete = ON")
            return database.execute(statement, values).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        way_out = "" if is_full(error, path.parent) else "; the daemon puts a damaged one aside"
        raise StateError(f"cannot use the journal {path}: {_reason(error, path)}{way_out}") from error


def _open(device: SinkDevice) -> Journal:
    events = device.config.events
    return Journal(device.config.device.state / JOURNAL, days=events.journal_days, megabytes=events.journal_mb)


SINK = SinkKind(name="journal", open=_open)


def _reason(error: Exception, path: Path) -> str:
    return "the disk is full; make room there" if is_full(error, path.parent) else str(error)


def _opened(path: Path) -> sqlite3.Connection:
    """Open or create a journal; one that is damaged is put aside.

    Raises OSError, sqlite3.Error if the disk does not let it.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return _connect(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _OF_THE_DISK:
            raise
        aside = path.with_name(f"{path.name}.damaged")
        log.error("the journal %s is damaged (%s); it was put aside as %s", path, error, aside.name)
        _put_aside(path, aside)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite gives its log and index the mode of the database, so the mode is set before it first sees the file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    database = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        database.execute(f"PRAGMA journal_size_limit = {_WAL_PAGES * 4096}")
        database.executescript(_SCHEMA)
        there = {row[1] for row in database.execute("PRAGMA table_info(events)")}
        for column, kind in _ADDED.items():
            if column not in there:
                database.execute(f"ALTER TABLE events ADD COLUMN {column} {kind}")
        _require_whole(database)
    except (sqlite3.Error, UnicodeDecodeError):  # the latter: SQLite quotes a damaged schema
        database.close()
        raise
    return database


def _require_whole(database: sqlite3.Connection) -> None:
    """Check for damage to the file's structure; a changed value is not found, and nothing reads values alone."""
    found = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    database.execute("SELECT time, kind, label, class_id, score, level_db, ended, input FROM events LIMIT 1")


def _put_aside(path: Path, aside: Path) -> None:
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
