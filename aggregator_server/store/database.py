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

VERSION = 3  # of the tables: to be raised whenever they change, for nothing converts old ones
CONNECTIONS = 16  # kept open: opening one costs more than most queries
_LOCK_WAIT_S = 30.0
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a receipt promises that the upload survives a power cut
    "PRAGMA foreign_keys = ON",
)


def create_database(path: Path) -> Engine:
    """Open the database at ``path``, with all tables where it is new.

    Raises:
        StartError: the file cannot be opened, is no database, or has tables of another version.
    """
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": _LOCK_WAIT_S}, pool_size=CONNECTIONS, max_overflow=0
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    try:
        # In one transaction: killed within it, the next start finds an empty database again.
        with engine.execution_options(auricle_write=True).begin() as connection:
            _require_version(connection, path)
            Base.metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
    except StartError:
        engine.dispose()
        raise
    except (OperationalError, DatabaseError) as error:
        engine.dispose()
        raise StartError(
            f"{path} cannot be opened as a database ({error.orig}); restore it from a backup or choose another folder"
        ) from error
    return engine


def _require_version(connection: Connection, path: Path) -> None:
    """Refuse tables that another version of this program made.

    Raises:
        StartError: naming the folder, its version and the way out.
    """
    found = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if found == VERSION or not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one():
        return
    whose = "a newer aggregator" if found > VERSION else "an older aggregator"
    raise StartError(
        f"data folder {path.parent} was written by {whose}: its tables have version {found or 'none'}, this one reads "
        f"version {VERSION} and converts no other. Run the release that wrote it, or begin anew in an empty folder: "
        "copy tokens.json into it, publish the public set and the shared model, and the devices enrol again"
    )


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions late; _begin does it
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _begin(connection: Connection) -> None:
    # A writer takes the lock at once: upgrading a reader's lock later fails whenever somebody else wrote between.
    write = connection.get_execution_options().get("auricle_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
