"""The connection to the database: SQLite with a write-ahead log, foreign keys and durable commits.

The tables and queries are plain SQL that PostgreSQL takes as well; what only SQLite needs stands in this file.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError

from aggregator_server.errors import StartError
from aggregator_server.store.tables import Base

CONNECTIONS = 16  # kept open: opening one costs more than most queries
_LOCK_WAIT_S = 30.0
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a receipt promises that the upload survives a power cut
    "PRAGMA foreign_keys = ON",
)


def create_database(path: Path) -> Engine:
    """Open the database at ``path`` and create the tables that it lacks.

    Raises:
        StartError: the file cannot be opened, or is no database.
    """
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": _LOCK_WAIT_S}, pool_size=CONNECTIONS, max_overflow=0
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    try:
        Base.metadata.create_all(engine)
    except (OperationalError, DatabaseError) as error:
        engine.dispose()
        raise StartError(
            f"{path} cannot be opened as a database ({error.orig}); restore it from a backup or choose another folder"
        ) from error
    return engine


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions late; _begin does it
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin(connection: Connection) -> None:
    # A writer takes the lock at once: upgrading a reader's lock later fails whenever somebody else wrote between.
    write = connection.get_execution_options().get("auricle_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
