"""Copies of a fleet's rows and blobs from one kind of database and store to another, compared by digests."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, insert, select, update

from aggregator_server.errors import BackupError, BlobError, StartError
from aggregator_server.store import migrations
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.database import address_of, make_tables, number_of
from aggregator_server.store.identity import Identity
from aggregator_server.store.location import DATABASE, Location
from aggregator_server.store.opening import open_blobs, open_tables
from aggregator_server.store.postgres.database import Postgres, open_postgres
from aggregator_server.store.tables import Base

_ROWS = 1_000
_AT_ONCE = 8  # blobs, each whole in memory

Digests = dict[str, tuple[int, str]]  # of each table: how many rows it has, and the SHA-256 of all


@contextmanager
def file_of_tables(path: Path) -> Iterator[Engine]:
    """Open a file of SQLite that nobody else has open."""
    engine = create_engine(address_of(path))
    try:
        yield engine
    finally:
        engine.dispose()


def upgrade_tables(path: Path, shown: str) -> None:
    """Change the tables in a file that nobody else has open, as a server does. Raises StartError: it would refuse."""
    with file_of_tables(path) as engine, engine.begin() as connection:
        migrations.upgrade(connection, shown)


def copy_tables(location: Location, copy: Path) -> None:
    """Copy the tables of a fleet into a new file of SQLite, in one state; a server may write meanwhile.

    Raises BackupError: rows are not what they were. sqlite3.DatabaseError: the database is damaged.
    """
    copy.touch(mode=0o600)
    if location.file is not None:
        with closing(sqlite3.connect(location.file)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file
        return
    with closing(open_tables(location)) as tables, tables.reading() as session, file_of_tables(copy) as engine:
        assert isinstance(tables.database, Postgres)
        with engine.begin() as connection:
            make_tables(connection, tables.database.number)
            _copy_rows(session.connection(), connection)


def take_elsewhere(location: Location, folder: Path) -> None:
    """Put rows and blobs of a data folder where a location has them, and remove them from the folder.

    ``location``: whose data folder is to be ``folder``. Raises BackupError, StartError: they cannot be put there.
    """
    elsewhere = replace(location, data=folder)
    with file_of_tables(folder / DATABASE) as engine, engine.connect() as rows:
        number = number_of(rows)
        if location.store is not None:
            target = open_blobs(elsewhere)
            _require_own(target, number)
            _copy_blobs(open_blobs(Location(folder)), target)
        if location.database is not None:
            _fill_database(elsewhere, number, rows)
    if location.store is not None:
        shutil.rmtree(folder / "blobs")
    if location.database is not None:
        (folder / DATABASE).unlink()


def _copy_rows(source: Connection, target: Connection) -> None:
    """Copy every row into empty tables. Raises BackupError: what was written is not what was read."""
    for table in Base.metadata.sorted_tables:
        own = [column.name for column in table.columns if any(key.column.table is table for key in column.foreign_keys)]
        later = []
        for rows in _batches(source, table):
            # A row may name one that comes after it.
            target.execute(insert(table), [row | dict.fromkeys(own) for row in rows])
            later += [row for row in rows if any(row[name] is not None for name in own)]
        keys = list(table.primary_key.columns)
        for row in later:
            same = [key == row[key.name] for key in keys]
            target.execute(update(table).where(*same).values({name: row[name] for name in own}))
    wanted, found = digests_of(source), digests_of(target)
    differing = [name for name in wanted if wanted[name] != found[name]]
    if differing:
        raise BackupError(f"rows of {', '.join(differing)} are not what they were after they were copied; try again")


def digests_of(connection: Connection) -> Digests:
    """Return the number of rows of each table, and their SHA-256."""
    found: Digests = {}
    for table in Base.metadata.sorted_tables:
        count, digest = 0, hashlib.sha256()
        for rows in _batches(connection, table):
            count += len(rows)
            for row in rows:
                digest.update(json.dumps(row, sort_keys=True).encode("utf-8", "surrogatepass") + b"\n")
        found[table.name] = (count, digest.hexdigest())
    return found


def _batches(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    rows = connection.execution_options(yield_per=_ROWS).execute(select(table).order_by(*table.primary_key.columns))
    for part in rows.mappings().partitions():
        yield [dict(row) for row in part]


def _copy_blobs(source: BlobStore, target: BlobStore) -> None:
    """Copy every blob, as far as the target has not got it whole. Raises BackupError: one is damaged."""
    there = set(target.digests())

    def copy(sha256: str) -> None:
        if sha256 not in there or not target.is_whole(sha256):
            target.put(source.read(sha256))

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        try:
            for _ in threads.map(copy, source.digests()):
                pass
        except BlobError as error:
            raise BackupError(f"{error}; `auricle-aggregator check` says more") from error


def _fill_database(location: Location, number: int, rows: Connection) -> None:
    """Write rows into a database that is empty or has just these. Raises StartError: it has others, or is away."""
    assert location.database is not None
    database = open_postgres(
        location.database,
        Identity(open_blobs(location)),
        create=True,
        number=number,
        fill=lambda target: _copy_rows(rows, target),
    )
    with closing(database), database.reading() as there:
        if database.number != number or digests_of(there.connection()) != digests_of(rows):
            raise StartError(f"{location.tables_shown} holds a fleet already; name an empty database")


def _require_own(blobs: BlobStore, number: int) -> None:
    """Take a store for a fleet, before anything is in it. Raises StartError: it is another's."""
    identity = Identity(blobs)
    if identity.noted != number and (identity.noted is not None or not blobs.is_empty()):
        raise StartError(f"{blobs.shown()} holds another fleet's arrays; name an empty bucket, prefix or folder")
    identity.note(number)
