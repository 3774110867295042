"""The journal: every event, in SQLite, within a limit of age and size; readable by the daemon's user alone.

Write-ahead logging with a flush at every commit: after a power cut or SIGKILL it holds every event that was written.
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
from edge_client.events import Event, SinkDevice, SinkKind
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

        Args:
            days: age at which events are deleted.
            megabytes: size (10^6 bytes) above which the oldest events are deleted.
        """
        self.path = path
        self._keep_s = days * _DAY_S
        self._bytes = megabytes * 1e6
        self._since_pruned = 0
        self._lock = threading.Lock()
        self._trouble = RateLimitedLog(log)
        self._delivery: Delivery[Event] = Delivery("the journal", self._write)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._database = _connect(path)
            _require_whole(self._database)
            self._prune()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _OF_THE_DISK:
                raise OSError(f"cannot use the journal {path}: {_reason(error, path)}") from error
            aside = path.with_name(f"{path.name}.damaged")
            log.error("the journal %s is damaged (%s); it was put aside as %s", path, error, aside.name)
            _put_aside(path, aside)
            self._database = _connect(path)

    def publish(self, event: Event) -> None:
        """Queue an event to be written."""
        self._delivery.put(event)

    def follow(self, event: Event) -> None:
        """Queue the end of a sound, which is written beside its event."""
        if event.ended is not None:
            self._delivery.put(event)

    def close(self) -> None:
        """Write what waits, and close."""
        if self._delivery.close(_GRACE_S):
            with self._lock:
                self._database.close()

    def _write(self, event: Event) -> None:
        row = (event.time, event.kind, event.label, event.class_id, event.score, event.level_db, event.input)
        try:
            with self._lock:
                if event.ended is not None:
                    which = (event.ended, event.time, event.kind, event.label, event.input)
                    self._database.execute(
                        "UPDATE events SET ended = ? WHERE time = ? AND kind = ? AND label = ? AND input = ?", which
                    )
                    return
                self._database.execute(
                    "INSERT INTO events (time, kind, label, class_id, score, level_db, input) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                self._since_pruned += 1
                if self._since_pruned >= _PRUNE_EVERY:
                    self._prune()
        except sqlite3.Error as error:
            self._trouble.warning("cannot write an event to the journal %s: %s", self.path, error)

    def _prune(self) -> None:
        """Delete what is too old, and the oldest tenth for as long as the file is too large."""
        self._since_pruned = 0
        execute = self._database.execute
        execute("DELETE FROM events WHERE time < ?", (time.time() - self._keep_s,))
        self._shrink()
        page = execute("PRAGMA page_size").fetchone()[0]
        while (execute("PRAGMA page_count").fetchone()[0] + _WAL_PAGES) * page > self._bytes:
            deleted = execute(
                "DELETE FROM events WHERE id <= (SELECT MIN(id) + (MAX(id) - MIN(id)) / 10 FROM events)"
            ).rowcount
            self._shrink()
            if not deleted:
                return

    def _shrink(self) -> None:
        """Give freed pages back. (``execute`` would give back a single one: it stops where there are no rows.)"""
        self._database.executescript("PRAGMA incremental_vacuum")


def past_events(path: Path, limit: int, since: float = 0.0, label: str | None = None) -> list[Event]:
    """Return the newest events of a journal, oldest first, also while a daemon writes it; ``since``: seconds since
    1970.

    Raises StateError if the journal is damaged, or cannot be read.
    """
    columns = [row[1] for row in _ask(path, "PRAGMA table_info(events)", ())]
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
    (found,) = _ask(path, "SELECT COUNT(*) FROM events WHERE label = ?", (label,)) or [(0,)]
    _ask(path, "DELETE FROM events WHERE label = ?", (label,))
    return int(found[0])


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
