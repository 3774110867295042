"""Whether a data folder's database is its own: a number in the database's header and in a file beside it agree.

A database that was emptied, lost or replaced would otherwise start a new fleet in silence, beside the blobs of the old.
"""

import logging
import secrets
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError

from aggregator_server.errors import StartError
from aggregator_server.store import migrations
from aggregator_server.store.free_space import full, is_full
from aggregator_server.store.tables import Base
from fleet_protocol.atomic_files import write_durably

_LARGEST = 2**31  # SQLite keeps the number as a signed 32-bit integer; 0 stands for none


class FolderIdentity:
    """The number of a data folder, in its file ``fleet.id``."""

    def __init__(self, folder: Path, *, has_blobs: bool) -> None:
        """Read the number.

        Args:
            has_blobs: whether it holds blobs.

        Raises:
            StartError: the file is no number.
        """
        self._path = folder / "fleet.id"
        self._has_blobs = has_blobs
        try:
            self._noted = int(self._path.read_text()) if self._path.exists() else None
        except ValueError as error:
            raise StartError(
                f"{self._path} is damaged ({error}); remove it if the database is this folder's"
            ) from error

    def require(self, connection: Connection, path: Path, *, empty: bool) -> None:
        """Check that a database is the folder's, and give it a number where it has none.

        Args:
            connection: Connection to the database, in the transaction that prepares it.
            empty: whether it was without tables.

        Raises:
            StartError: it is not; names the way out.
        """
        found = int(connection.exec_driver_sql("PRAGMA application_id").scalar_one())
        folder = path.parent
        if empty and (self._noted is not None or self._has_blobs):
            raise StartError(
                f"data folder {folder} belongs to a fleet, but its database {path.name} is missing or empty; restore "
                f"it from a backup. To start a new fleet, choose another folder, or move {folder / 'blobs'} and "
                f"{self._path} away"
            )
        if self._noted is not None and found != self._noted:
            raise StartError(
                f"{path} is the database of another fleet (number {found}, the folder's is {self._noted}); put this "
                f"folder's own back from a backup. If it is meant to be this one, remove {self._path}"
            )
        if not found:
            found = 1 + secrets.randbelow(_LARGEST - 1)
            connection.exec_driver_sql(f"PRAGMA application_id = {found}")
        self._found = found

    def note(self) -> None:
        """Write the number beside the database, once that is on the disk."""
        if self._noted is None:
            write_durably(self._path, f"{self._found}\n".encode())


# `PRAGMA user_version` of a database whose revision Alembic notes. Releases before it refuse this number.
MANAGED = 4
CONNECTIONS = 16  # kept open: opening one costs more than most queries
_LOCK_WAIT_S = 30.0
_log = logging.getLogger(__name__)
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # a receipt promises that the upload survives a power cut
    "PRAGMA foreign_keys = ON",
)


def create_database(path: Path, identity: FolderIdentity) -> Engine:
    """Open the database at ``path``, with all tables where it is new, and with changed ones where it is older.

    Raises:
        StartError: the file cannot be opened, is no database, has tables that this release cannot change, or is not
            the folder's.
    """
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": _LOCK_WAIT_S}, pool_size=CONNECTIONS, max_overflow=0
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    try:
        # In one transaction: killed within it, the next start finds the database as it was.
        with engine.execution_options(auricle_write="tables").begin() as connection:
            empty = not connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
            identity.require(connection, path, empty=empty)
            _bring_up_to_date(connection, path, empty=empty)
        engine.dispose()  # the next connection keeps references again
        identity.note()
    except StartError:
        engine.dispose()
        raise
    except (OperationalError, DatabaseError) as error:
        engine.dispose()
        if is_full(error, path.parent):
            raise full(path.parent) from error
        raise StartError(
            f"{path} cannot be opened as a database ({error.orig}); restore it from a backup or choose another folder"
        ) from error
    return engine


def _bring_up_to_date(connection: Connection, path: Path, *, empty: bool) -> None:
    """Make the tables, or change those of an older release."""
    if empty:
        Base.metadata.create_all(connection)
        migrations.stamp(connection, migrations.newest())
        connection.exec_driver_sql(f"PRAGMA user_version = {MANAGED}")
        return
    found = _revision(connection, path)
    if found == migrations.newest():
        return
    _log.info("the tables of %s are changed from revision %s to %s", path, found, migrations.newest())
    migrations.upgrade(connection)
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        raise StartError(f"{path} has rows that refer to missing ones ({broken[0]}); restore it from a backup")
    connection.exec_driver_sql(f"PRAGMA user_version = {MANAGED}")


def _revision(connection: Connection, path: Path) -> str:
    """Return the revision of the tables; version 3 is the baseline, from which Alembic goes on."""
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    noted = migrations.revision(connection)
    if version == MANAGED and noted is not None and migrations.is_known(noted):
        return noted
    if str(version) == migrations.BASELINE:
        migrations.stamp(connection, migrations.BASELINE)
        return migrations.BASELINE
    newer = version >= MANAGED
    raise StartError(
        f"data folder {path.parent} was written by {'a newer' if newer else 'an older'} aggregator: its tables have "
        f"revision {noted or version or 'none'}, this one reads {migrations.BASELINE} to {migrations.newest()}. "
        "Run the release that wrote it, or begin anew in an empty folder: copy tokens.json into it, publish the public "
        "set and the shared model, and the devices enrol again"
    )


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
    if write == "tables":  # to copy one, others' references to it must do without it for a moment
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql(f"PRAGMA synchronous = {'NORMAL' if write == 'soon' else 'FULL'}")
    # A writer takes the lock at once: upgrading a reader's lock later fails whenever somebody else wrote between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
