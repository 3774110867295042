"""The database of a fleet: what every kind does, and SQLite, the kind that needs nothing besides."""

import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL, Connection, Engine, Executable, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from aggregator_server.errors import AggregatorError, StartError, StateAwayError
from aggregator_server.store import migrations
from aggregator_server.store.free_space import full, is_full
from aggregator_server.store.identity import Identity
from aggregator_server.store.tables import Base

Durability = Literal["durable", "soon"]


class Database(ABC):
    """Tables that several processes may have open; ``shown`` says to people where they are."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self.engine = engine
        self.shown = shown
        # To make an engine with options takes as long as some statements, so each is made once.
        self._writing = {kind: engine.execution_options(auricle_write=kind) for kind in ("durable", "soon")}
        self._reader: Connection | None = None
        self._reader_thread = 0  # the thread that may use it

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one consistent state; nothing that is done in it is kept."""
        with self.answers(), Session(self._reading, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self, durability: Durability) -> Iterator[Session]:
        """A session that nobody writes beside, and that commits at the end."""
        with self.answers(), Session(self._writing[durability], expire_on_commit=False) as session, session.begin():
            yield session

    def first_row(self, statement: Executable, parameters: Mapping[str, object]) -> Any:  # noqa: ANN401  (a row)
        """Return the first row that a statement finds in the newest state; of one thread alone."""
        if self._reader is None:
            self._reader_thread = threading.get_ident()
            self._reader = self._autocommitting()
        if threading.get_ident() != self._reader_thread:
            raise RuntimeError("a second thread reads rows by their keys; only that of the event loop may")
        try:
            return self._reader.execute(statement, parameters).first()
        except SQLAlchemyError:
            self._drop_reader()
            raise

    def close(self) -> None:
        """Close every connection."""
        self._drop_reader()
        self.engine.dispose()

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @property
    @abstractmethod
    def _reading(self) -> Engine:
        """Connections that only read, each from one state."""

    @abstractmethod
    def _autocommitting(self) -> Connection:
        """Return a connection of which every statement sees the newest state."""

    @abstractmethod
    def answers(self) -> Any:  # noqa: ANN401  (a context manager)
        """Return a context that turns errors of a database which does not answer into StateAwayError."""

    def require_writable(self) -> None:  # noqa: B027  (most have nothing to check)
        """Check that the database takes writes, as far as that is in doubt. Raises StateAwayError: it does not."""

    @abstractmethod
    def flush(self) -> None:
        """Make durable whatever was committed before. Raises OSError: the disk refuses, or it does not answer."""


class Sqlite(Database):
    """A file of SQLite, with a write-ahead log."""

    def __init__(self, engine: Engine, shown: str) -> None:
        super().__init__(engine, shown)
        found = Path(shown).stat()
        self._file = found.st_dev, found.st_ino
        self._held = False  # by another program, when somebody wanted to write last

    @property
    def _reading(self) -> Engine:
        return self.engine

    def _autocommitting(self) -> Connection:
        return self.engine.connect().execution_options(auricle_autocommit=True)

    @contextmanager
    def answers(self) -> Iterator[None]:
        """Turn errors of a file that another program holds, or that is gone, into StateAwayError."""
        self._require_own_file()
        try:
            yield
        except OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF not in _HELD:
                raise
            self._held = True
            raise StateAwayError(
                f"the database {self.shown} has been held by another program for {_LOCK_WAIT_S:g} s; end that program"
            ) from None

    @contextmanager
    def writing(self, durability: Durability) -> Iterator[Session]:
        """A session that nobody writes beside, and that commits at the end."""
        with super().writing(durability) as session:
            yield session
        self._held = False

    def first_row(self, statement: Executable, parameters: Mapping[str, object]) -> Any:  # noqa: ANN401  (a row)
        """Return the first row that a statement finds in the newest state; of one thread alone."""
        with self.answers():
            return super().first_row(statement, parameters)

    def require_writable(self) -> None:
        """Try to write where it failed last. Raises StateAwayError: another program still holds the file."""
        if self._held:
            with self.writing("soon") as session:
                session.connection()

    def _require_own_file(self) -> None:
        """Check that the file was not removed, or what is written is lost. Raises StateAwayError: it was."""
        try:
            found = Path(self.shown).stat()
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._file:
            raise StateAwayError(
                f"the database {self.shown} was removed or replaced while the server runs; stop the server, and "
                "restore it from a backup (`auricle-aggregator restore`)"
            )

    def flush(self) -> None:  # noqa: D102
        try:
            log = os.open(f"{self.engine.url.database}-wal", os.O_RDONLY)
        except FileNotFoundError:  # all of it is in the database itself
            return
        try:
            os.fdatasync(log)
        finally:
            os.close(log)


CONNECTIONS = 16  # kept open: opening one costs more than most queries
_LOCK_WAIT_S = 30.0
_HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a receipt promises that the upload survives a power cut
    "PRAGMA foreign_keys = ON",
)


def address_of(path: Path) -> URL:
    """Return the address of a file of SQLite, whatever signs its path has."""
    return URL.create("sqlite", database=str(path))


def open_sqlite(path: Path, identity: Identity, *, upgrade: bool) -> Sqlite:
    """Open the database at ``path``, with all tables where it is new.

    ``upgrade``: whether tables of an earlier release are changed, rather than refused; for who has the folder alone.
    Raises StartError: the file cannot be opened, is no database, has tables of another release, or is not the blobs'
    own.
    """
    _close_to_others(path)
    engine = create_engine(
        address_of(path), connect_args={"timeout": _LOCK_WAIT_S}, pool_size=CONNECTIONS, max_overflow=0
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    try:
        # In one transaction: killed within it, the next start finds the database as it was.
        with engine.execution_options(auricle_write="durable").begin() as connection:
            empty = not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
            number = identity.require(0 if empty else number_of(connection), str(path))
            if empty:
                make_tables(connection, number)
            else:
                (migrations.upgrade if upgrade else migrations.require_newest)(connection, str(path))
                with Session(connection) as session:
                    identity.require_blobs(session, str(path))
        identity.note(number)
    except AggregatorError:
        engine.dispose()
        raise
    except (OperationalError, DatabaseError) as error:
        engine.dispose()
        if is_full(error, path.parent):
            raise full(path.parent) from error
        raise _unusable(path, error.orig) from error
    return Sqlite(engine, str(path))


def _unusable(path: Path, error: object) -> StartError:
    return StartError(
        f"{path} cannot be opened as a database ({error}); restore it from a backup or choose another folder"
    )


def make_tables(connection: Connection, number: int) -> None:
    """Make the tables of a fleet with a number in an empty file of SQLite."""
    connection.exec_driver_sql(f"PRAGMA application_id = {number}")
    Base.metadata.create_all(connection)
    migrations.stamp(connection)


def number_of(connection: Connection) -> int:
    """Return the number of the fleet in a file of SQLite."""
    return int(connection.exec_driver_sql("PRAGMA application_id").scalar_one())


def damage_of(path: Path) -> list[str]:
    """Return what is damaged in a file of SQLite, which others may use. Raises StartError: it cannot be read."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            lines = [line for (line,) in connection.execute("PRAGMA integrity_check(20)") if line != "ok"]
            broken = connection.execute("PRAGMA foreign_key_check").fetchmany(20)
    except sqlite3.DatabaseError as error:
        if is_full(error, path.parent):
            raise full(path.parent) from error
        if isinstance(error, sqlite3.OperationalError):
            raise _unusable(path, error) from error
        return [str(error)]
    missing = [f"row {row} of {table} names a row of {other} that is missing" for table, row, other, _ in broken]
    return [" ".join(line.split()) for line in lines] + missing


def _close_to_others(path: Path) -> None:
    """Let nobody but its owner read a database."""
    with suppress(OSError):  # to open it says what is wrong
        path.touch(mode=0o600)
        for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            if file.exists() and file.stat().st_mode & 0o077:
                file.chmod(0o600)


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions late; _begin does it
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("auricle_autocommit", False):
        return  # every statement sees the newest state
    write = options.get("auricle_write")
    if write is None:
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous = {'NORMAL' if write == 'soon' else 'FULL'}")
    # A writer takes the lock at once: upgrading a reader's lock later fails whenever somebody else wrote between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
