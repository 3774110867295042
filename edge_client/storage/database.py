"""The file ``state.sqlite3``: what a device keeps in rows, and their schema; several processes use it at once.

Write-ahead logging: a power cut or SIGKILL leaves each change whole or undone. Changes that may be lost in a power cut
are not flushed at once, because a memory card is worn out by that. A damaged file is put aside
(:meth:`Database.mend`), because listening matters more than what is in it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from edge_client.errors import DamagedError, StateError
from edge_client.storage.locks import on_a_share
from fleet_protocol.ground.atomic_files import flush_folder, give_to_owner, is_full, is_read_only, make_folder
from fleet_protocol.numbers.tensors import digest

log = logging.getLogger(__name__)

FILE = "state.sqlite3"
# What leads to each version from the one before it, for ever: a change of the tables is a script at the end. The order
# of a table's rows is that in which they came, whatever the clock said then.
_VERSIONS = (
    """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, label TEXT NOT NULL, class_id TEXT,
    score REAL NOT NULL, level_db REAL NOT NULL, ended REAL, input TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS events_by_time ON events (time);
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS renamings (
    id INTEGER PRIMARY KEY, number INTEGER NOT NULL, at REAL NOT NULL, former TEXT NOT NULL, label TEXT NOT NULL,
    moves TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS wrong_detections (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, label TEXT NOT NULL, UNIQUE (at, label)
) STRICT;
CREATE TABLE IF NOT EXISTS questions (
    id INTEGER PRIMARY KEY, features TEXT NOT NULL, question_id TEXT NOT NULL UNIQUE, at REAL NOT NULL,
    label TEXT NOT NULL, detected INTEGER NOT NULL, score REAL NOT NULL, said TEXT NOT NULL, said_at REAL NOT NULL,
    number INTEGER NOT NULL, folder TEXT NOT NULL, shared INTEGER NOT NULL, embedding BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS candidates (
    id INTEGER PRIMARY KEY, features TEXT NOT NULL, at REAL NOT NULL, worth REAL NOT NULL, detected INTEGER NOT NULL
) STRICT;
""",
    # Acts of every kind beside renamings.
    """
ALTER TABLE renamings ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE renamings ADD COLUMN others TEXT NOT NULL DEFAULT '{}';
""",
    # What rules have still to tell.
    """
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, due REAL NOT NULL, tries INTEGER NOT NULL, rule TEXT NOT NULL,
    action TEXT NOT NULL, document TEXT NOT NULL, error TEXT NOT NULL
) STRICT;
""",
    # What an unknown sound may be.
    "ALTER TABLE events ADD COLUMN guess TEXT NOT NULL DEFAULT '';",
)
VERSION = len(_VERSIONS)
# What SQLite says when the disk or another process is in the way; anything else is damage.
_IN_USE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_OF_THE_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
# What it says of a disk, as of some network shares, on which it can hold no lock, or map no memory for all programs.
_OF_SHARES = {
    *(sqlite3.SQLITE_IOERR_LOCK, sqlite3.SQLITE_IOERR_RDLOCK, sqlite3.SQLITE_IOERR_UNLOCK),
    *(sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK, sqlite3.SQLITE_IOERR_SHMLOCK, sqlite3.SQLITE_IOERR_SHMMAP),
}
_PATIENCE_S = 5.0
_TRIES, _PAUSE_S = 10, 0.1
WAL_PAGES = 64
"""Pages of the log that is written ahead, at most: it counts towards the journal's limit, too."""
# Held by the thread that creates a database, whose descriptor no other one's locks may outlive.
_CREATING = threading.Lock()
_MISSING = (0, 0, 0)  # instead of a file's time of change, size and number
# A file that changed less long ago may change again without showing it, ns.
_TICK_NS = 50_000_000


class Database:
    """The database of a state folder. A connection is opened for each question and each change, and closed again."""

    def __init__(self, path: Path) -> None:
        """Use a file, which is made by the first change."""
        self.path = path
        self._notes: tuple[object, dict[str, str]] | None = None

    def rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return a query's rows; none where there is no database yet.

        Raises StateError if it is damaged or another process holds it; OSError if the disk does not let it be read.
        """
        if not self.path.exists():
            return []
        with self.errors():
            try:
                return self._rows(query, values)
            except sqlite3.OperationalError as error:
                # A full disk has no room for the index that processes share. Who has the file to himself needs none.
                if _code(error) not in _OF_THE_DISK:
                    raise
                if is_read_only(self.path.parent):  # where SQLite makes no index
                    return self._rows_of_nobody(query, values)
                return self._rows(query, values, "PRAGMA locking_mode = EXCLUSIVE")

    def _rows(
        self, query: str, values: tuple[object, ...], first: str = "", *, immutable: bool = False
    ) -> list[tuple[Any, ...]]:
        with closing(_connect(self.path, immutable=immutable)) as connection:
            connection.execute(first)
            version = _version(connection, self.path)
            try:
                return connection.execute(query, values).fetchall() if version else []
            except sqlite3.OperationalError as error:
                # Tables that a later release brought are there once something is changed; until then they are empty.
                if version == VERSION or _code(error) != sqlite3.SQLITE_ERROR:
                    raise
                return []

    def _rows_of_nobody(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Return rows where the index is missing, since nobody has the file open, and this process may not make it."""
        # It is read without a lock and without the log. Whoever opens it meanwhile writes a log, and makes the index.
        for _ in range(_TRIES):
            before = self.key()
            if before[1] == _MISSING:
                try:
                    found = self._rows(query, values, immutable=True)
                except sqlite3.DatabaseError:
                    if self.key() == before:  # else it was written meanwhile, and looked damaged
                        raise
                else:
                    if self.key() == before:
                        return found
            with suppress(sqlite3.OperationalError):
                return self._rows(query, values)
            time.sleep(_PAUSE_S)
        return self._rows(query, values)

    @contextmanager
    def changing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Change rows in one transaction, which is undone where the body raises.

        ``durable``: whether it survives a power cut of the next moment. Raises StateError, OSError as :meth:`rows`.
        """
        with self.errors(), closing(self.open()) as connection:
            if not durable:
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def open(self) -> sqlite3.Connection:
        """Open the database, or create it, for any thread, one at a time. Raises sqlite3.Error, OSError, StateError."""
        make_folder(self.path.parent)
        self._create()
        connection = _connect(self.path)
        try:
            if not _version(connection, self.path):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            for name, value in (
                *(("journal_mode", "WAL"), ("synchronous", "FULL"), ("secure_delete", "ON")),
                *(("wal_autocheckpoint", WAL_PAGES), ("journal_size_limit", WAL_PAGES * 4096)),
            ):
                connection.execute(f"PRAGMA {name} = {value}")
            if _version(connection, self.path) < VERSION:
                _upgrade(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Make the file where it is missing. SQLite gives its log and index its mode and owner, so they come first."""
        # No descriptor of a file that is there is opened and closed: POSIX drops all locks that the process has on it
        # then, and another program that closes it takes itself for the last one and removes the log that is in use.
        with _CREATING:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                return
            try:
                give_to_owner(descriptor, self.path.parent)
            finally:
                os.close(descriptor)

    def erase(self) -> None:
        """Leave nothing in the log of what was removed, as far as no other process reads it now."""
        if self.path.exists():
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def note(self, name: str) -> Any | None:  # noqa: ANN401  (whatever was noted)
        """Return what :meth:`set_note` noted; None where nothing was, or it is damaged.

        It may be asked for every second: the notes are read again only once the file is another one. Raises StateError,
        OSError as :meth:`rows`.
        """
        key = self.key()
        if self._notes is None or self._notes[0] != key:
            found = self.rows("SELECT name, value, sha256 FROM notes")
            notes = {name: value for name, value, sha256 in found if digest(value.encode()) == sha256}
            settled = abs(time.time_ns() - max(mtime for mtime, _, _ in key)) > _TICK_NS
            self._notes = (key if settled else None, notes)
        value = self._notes[1].get(name)
        return None if value is None else json.loads(value)

    def set_note(self, name: str, value: object, *, durable: bool = True) -> None:
        """Note something JSON-ready; None: remove the note. Raises StateError, OSError as :meth:`rows`."""
        with self.changing(durable=durable) as connection:
            connection.execute("DELETE FROM notes WHERE name = ?", (name,))
            if value is not None:
                text = json.dumps(value)
                connection.execute("INSERT INTO notes VALUES (?, ?, ?)", (name, text, digest(text.encode())))

    def require_own_release(self) -> None:
        """Refuse what a later release left. Raises StateError, DamagedError."""
        with suppress(OSError):
            self.rows("SELECT 1")

    def key(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes whenever a row does, by whatever process."""
        return tuple(_stat(path) for path in (self.path, self.path.with_name(f"{self.path.name}-wal")))

    def mend(self) -> list[str]:
        """Put a damaged file aside and begin a new one with what can be read; return what was damaged, in sentences.

        Only for the process that holds the state folder's locks. What a full disk does not let be read is left.
        """
        if not self.path.exists():
            return []
        try:
            with self.errors(), closing(self.open()) as connection:
                found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
                if found == "ok":
                    return _without_damaged_notes(connection)
        except DamagedError as error:
            found = str(error.__cause__)
        except (StateError, OSError) as error:
            log.warning("cannot check %s: %s", self.path, error)
            return []
        try:
            aside = self._put_aside()
        except OSError as error:
            log.warning("%s is damaged (%s), and cannot be put aside: %s", self.path, found, error)
            return []
        return [f"{FILE} was damaged ({found}); it was put aside as {aside.name}, and what could be read was kept"]

    def _put_aside(self) -> Path:
        new = Database(self.path.with_name(f"{self.path.name}.new"))
        for left in new.path.parent.glob(f"{new.path.name}*"):
            left.unlink()
        with self.errors(), closing(new.open()) as connection:
            connection.execute("BEGIN")
            for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                for columns, row in _readable(self.path, table):
                    _try_to_insert(connection, table, columns, row)
            connection.execute("COMMIT")
        aside = self.path.with_name(f"{self.path.name}.damaged")
        shutil.copyfile(self.path, aside)
        aside.chmod(0o600)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        new.path.replace(self.path)
        flush_folder(self.path.parent)
        return aside

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what SQLite raises into StateError, DamagedError where the file is damaged, or OSError."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: SQLite quotes a damaged schema
            code = _code(error)
            if code in _IN_USE:
                raise StateError(f"another program is changing {self.path}; try again") from error
            if is_full(error, self.path.parent):
                raise OSError(errno.ENOSPC, "the disk is full; free space there", str(self.path)) from error
            if getattr(error, "sqlite_errorcode", 0) in _OF_SHARES:
                raise on_a_share(self.path, "locks or shared memory", error) from error
            if code in _OF_THE_DISK:
                usable = os.R_OK | os.W_OK
                allowed = os.access(self.path.parent, usable | os.X_OK) and os.access(self.path, usable)
                raise OSError(errno.EIO if allowed else errno.EACCES, str(error), str(self.path)) from error
            raise DamagedError(
                f"{self.path} is damaged ({error}); the daemon puts it aside when it starts, and keeps what can be read"
            ) from error


def _connect(path: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a file; ``immutable``: as it is, without the log that others write ahead."""
    name = f"{path.absolute().as_uri()}?immutable=1" if immutable else path
    connection = sqlite3.connect(name, _PATIENCE_S, isolation_level=None, check_same_thread=False, uri=immutable)
    connection.text_factory = lambda data: data.decode(errors="replace")  # of a row that is damaged
    return connection


def _upgrade(connection: sqlite3.Connection) -> None:
    """Change the tables to those of this release, in one transaction; another process may just have done so."""
    connection.execute("BEGIN IMMEDIATE")
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for script in _VERSIONS[found:]:
        for statement in script.split(";"):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema's version, 0 where there is none yet. Raises StateError if it is a later release's."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if not 0 <= found <= VERSION:
        raise StateError(f"{path} is of another release (schema {found}, here {VERSION}); install that one")
    return found


def _code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def _stat(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _MISSING
    return found.st_mtime_ns, found.st_size, found.st_ino


def _without_damaged_notes(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name, value, sha256 FROM notes").fetchall()
    damaged = [name for name, value, sha256 in rows if digest(value.encode()) != sha256]
    connection.executemany("DELETE FROM notes WHERE name = ?", [(name,) for name in damaged])
    return [f"the note {name} in {FILE} was damaged, and was removed; it will be made again" for name in damaged]


def _readable(path: Path, table: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return the rows of a damaged database's table with the names of their columns, as far as they can be read."""
    try:
        with closing(_connect(path)) as connection:
            found = connection.execute(f"SELECT * FROM {table}")
            columns = ", ".join(column for column, *_ in found.description)
            yield from ((columns, row) for row in found)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        log.warning("cannot read all of %s in %s: %s", table, path, error)


def _try_to_insert(connection: sqlite3.Connection, table: str, columns: str, row: tuple[Any, ...]) -> None:
    try:
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row)
    except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
        log.warning("left out a damaged row of %s: %s", table, error)
