"""Copies of a fleet's rows and blobs from one kind of database and store to another, compared by digests."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import BackupError, BlobError, StartError
from aggregator_server.store import DATABASE, identity_of, open_blobs, open_tables
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.database import Database, open_sqlite
from aggregator_server.store.identity import Identity
from aggregator_server.store.location import Location
from aggregator_server.store.postgres import Postgres, open_postgres
from aggregator_server.store.tables import Base, BlobRow

_ROWS = 1_000
_AT_ONCE = 8  # blobs, each whole in memory

Digests = dict[str, tuple[int, str]]
"""Of each table: how many rows it has, and the SHA-256 of all."""


class _NoIdentity(Identity):
    """Of a file of tables alone."""

    noted, has_blobs = None, False

    def note(self, number: int) -> None:
        pass

    def _of_nobody(self, database: str) -> str:
        raise AssertionError(database)

    def _foreign(self, database: str, found: int) -> str:
        raise AssertionError(database, found)


def number_of(database: Database) -> int:
    """Return the number of a database's fleet."""
    if isinstance(database, Postgres):
        return database.number
    with database.reading() as session:
        return int(session.connection().exec_driver_sql("PRAGMA application_id").scalar_one())


def copy_rows(source: Session, target: Connection) -> Digests:
    """Copy every row into empty tables; return what was copied. What is in a transaction on each side is consistent.

    Raises:
        BackupError: what was written is not what was read.
    """
    for table in Base.metadata.sorted_tables:
        own = [column.name for column in table.columns if any(key.column.table is table for key in column.foreign_keys)]
        later = []
        for rows in _batches(source.connection(), table):
            # A row may name one that comes after it.
            target.execute(insert(table), [row | dict.fromkeys(own) for row in rows])
            later += [row for row in rows if any(row[name] is not None for name in own)]
        keys = list(table.primary_key.columns)
        for row in later:
            same = [key == row[key.name] for key in keys]
            target.execute(update(table).where(*same).values({name: row[name] for name in own}))
    wanted, found = digests_of(source.connection()), digests_of(target)
    differing = [name for name in wanted if wanted[name] != found[name]]
    if differing:
        raise BackupError(f"rows of {', '.join(differing)} are not what they were after they were copied; try again")
    return wanted


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


def copy_blobs(session: Session, source: BlobStore, target: BlobStore, required: Iterable[str]) -> tuple[int, int]:
    """Copy every blob that a row names and that is there, as far as the target has not got it whole.

    Returns:
        How many there are, and their bytes.

    Raises:
        BackupError: one that is required is missing or damaged.
    """
    present = set(source.digests())
    named = set(session.scalars(select(BlobRow.sha256)))
    missing = sorted(set(required) - present)
    if missing:
        raise BackupError(f"blob {source.shown(missing[0])} is missing; `auricle-aggregator check` says more")
    there = set(target.digests())

    def copy(sha256: str) -> int:
        if sha256 in there and target.is_whole(sha256):
            return target.size(sha256)
        try:
            data = source.read(sha256)
        except BlobError as error:
            raise BackupError(f"{error}; `auricle-aggregator check` says more") from error
        target.put(data)
        return len(data)

    wanted, count, size = iter(sorted(named & present)), 0, 0
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        while batch := list(islice(wanted, _ROWS)):
            sizes = list(threads.map(copy, batch))
            count, size = count + len(sizes), size + sum(sizes)
    return count, size


def copy_tables(location: Location, file: Path) -> None:
    """Copy the rows of PostgreSQL into a new file of SQLite, in one state.

    Raises:
        BackupError: the copy differs.
    """
    file.unlink(missing_ok=True)
    tables = open_tables(location)
    try:
        with tables.reading() as session:
            number = number_of(tables.database)
            open_sqlite(file, _NoIdentity(), number=number, fill=lambda to: copy_rows(session, to)).close()
    finally:
        tables.close()
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = DELETE")  # one file


def fill_database(location: Location, number: int, session: Session) -> Digests:
    """Write a fleet's rows into a database that is empty, or has exactly these already; return what it has.

    Raises:
        StartError: it holds something else, or does not answer.
    """
    identity = identity_of(location, open_blobs(location))
    copied: list[Digests] = []

    def fill(target: Connection) -> None:
        copied.append(copy_rows(session, target))

    if location.database is None:
        database: Database = open_sqlite(location.data / DATABASE, identity, number=number, fill=fill)
    else:
        database = open_postgres(location.database, identity, create=True, number=number, fill=fill)
    try:
        if copied:
            return copied[0]
        wanted = digests_of(session.connection())
        with database.reading() as there:
            if number_of(database) != number or digests_of(there.connection()) != wanted:
                raise StartError(f"{location.tables_shown} holds a fleet already; name an empty database")
        return wanted
    finally:
        database.close()


def require_own(location: Location, blobs: BlobStore, number: int) -> None:
    """Take a store for a fleet, before anything is in it. Raises StartError: it is another's."""
    identity = identity_of(location, blobs)
    if (identity.noted is None and identity.has_blobs) or identity.noted not in (None, number):
        raise StartError(f"{blobs.shown()} holds another fleet's arrays; name an empty bucket, prefix or folder")
    identity.note(number)


def take_elsewhere(location: Location, folder: Path) -> None:
    """Put rows and blobs of a data folder where a location has them, and remove them from the folder.

    Args:
        location: whose data folder is to be ``folder``.

    Raises:
        BackupError, StartError: they cannot be put there.
    """
    if location.database is None and location.store is None:
        return
    source, elsewhere = Location(folder), replace(location, data=folder)
    tables, blobs = open_tables(source), open_blobs(source)
    try:
        number = number_of(tables.database)
        with tables.reading() as session:
            if location.store is not None:
                target = open_blobs(elsewhere)
                require_own(elsewhere, target, number)
                copy_blobs(session, blobs, target, ())
            if location.database is not None:
                fill_database(elsewhere, number, session)
    finally:
        tables.close()
    if location.store is not None:
        shutil.rmtree(folder / "blobs")
        (folder / "fleet.id").unlink(missing_ok=True)
    if location.database is not None:
        for file in folder.glob(f"{DATABASE}*"):
            file.unlink()
