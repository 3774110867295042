"""The storage of the fleet's state: tables for what changes, content-addressed blobs for arrays.

docs/architecture.md, "A round is rows in a database", says why.
"""

import fcntl
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Executable, select
from sqlalchemy.orm import Session

from aggregator_server.errors import AggregatorError, StartError
from aggregator_server.limits import DEVICES_NEEDED
from aggregator_server.store.blobs import BlobFolder, BlobStore
from aggregator_server.store.database import Database, damage_of, open_sqlite
from aggregator_server.store.free_space import full, is_full
from aggregator_server.store.identity import Identity
from aggregator_server.store.location import DATABASE, Location, locate, note_state, noted_state, way_back
from aggregator_server.store.objects import ObjectBlobs
from aggregator_server.store.postgres import Postgres, has_fleet, open_postgres
from aggregator_server.store.postgres_tables import note_removals
from aggregator_server.store.servers import Kind, Servers, require_lease
from aggregator_server.store.tables import BlobRow

__all__ = [
    "DATABASE",
    "LOCK",
    "Store",
    "Tables",
    "alone",
    "is_data_folder",
    "open_blobs",
    "open_tables",
    "require_own_tables",
    "running_instance",
    "why_not_meant",
]

# Files of a data folder.
LOCK = "lock"
# Any of these says that a folder was meant for a fleet; the lock is the first that a start makes.
_OF_A_FLEET = frozenset({DATABASE, LOCK, "blobs", "tokens.json"})

_log = logging.getLogger(__name__)
_ABANDONED_S = 86_400.0  # after which nobody receives a file of a folder that servers share


class Tables:
    """The tables of a fleet. Several processes may have them open."""

    def __init__(self, database: Database) -> None:
        # Another object after every transaction that wrote, also one of another server that told of it. Other processes
        # write no rounds, classes or models.
        self.state = object()
        self.database = database

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one consistent state; nothing that is done in it is kept.

        Raises StateAwayError: the database does not answer. So do the other methods.
        """
        with self.database.reading() as session:
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Session]:
        """A session that holds the write lock and commits durably at the end, or changes nothing on an error.

        Without ``durable``, a power cut may undo the commit until :meth:`flush` was called. It then undoes every later
        one too: the log is read up to its first damaged page.
        """
        with self.database.writing("durable" if durable else "soon") as session:
            yield session
        self.state = object()

    def flush(self) -> None:
        """Make durable whatever was committed before. Raises OSError: the disk refuses."""
        self.database.flush()

    def first_row(self, statement: Executable, parameters: Mapping[str, object]) -> Any:  # noqa: ANN401  (a row)
        """Return the first row that a statement finds by a key, or None.

        Only the thread of the event loop may call this. To read one row of SQLite takes a tenth of what it takes to
        have another thread do it, and no writer keeps a reader waiting.
        """
        return self.database.first_row(statement, parameters)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()


class Store(Tables):
    """The state of a fleet: its tables and its blobs, for a server. One process may have a data folder open.

    A blob is stored before any row names it; uploads are removed when their round is over.
    """

    def __init__(self, place: Path | Location) -> None:
        """Open the state, creating what it lacks.

        ``place``: where it is; a data folder has all of it. Raises StartError: it cannot be created or written,
        somebody else has it open, another version wrote it, it was moved, or its database is not the one that belongs
        to its blobs.
        """
        self.location = location = locate(place)
        self.folder = folder = location.data
        self.devices_needed = DEVICES_NEEDED  # to have sent a class before others listen for it
        self._seen: dict[str, float] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("ab", buffering=0)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.instance = secrets.token_hex(8)  # to be known by
            self._lock.truncate(0)
            self._lock.write(self.instance.encode())
            self.blobs = open_blobs(location)
            self.blobs.remove_leftovers(_ABANDONED_S if location.is_shared else 0.0)
        except BlockingIOError as error:
            self._lock.close()
            raise StartError(f"data folder {folder} is in use by another aggregator; stop that one first") from error
        except OSError as error:
            if is_full(error, folder):
                raise full(folder) from error
            raise StartError(
                f"data folder {folder} cannot be used ({error}); choose a folder that this user can write to"
            ) from error
        try:
            _require_undamaged(location)
            super().__init__(_open_database(location, self.blobs, create=True))
            self._postgres = self.database if isinstance(self.database, Postgres) else None
            self._servers: Servers | None = None
            if self._postgres is not None and not self._postgres.hold(shared=location.is_shared):
                self.database.close()
                raise StartError(
                    f"the fleet in {location.tables_shown} is in use by another aggregator, which shares it with none, "
                    "or by a command such as `move`; stop that one. Servers with a --store share a fleet"
                )
            note_state(location)
        except (AggregatorError, OSError):
            self._lock.close()
            raise

    def note_seen(self, device_id: str, now: float) -> None:
        """Keep in memory when a device was last heard of; rounds/queries.py writes it. Any thread may call this."""
        self._seen[device_id] = now

    def take_seen(self) -> dict[str, float]:
        """Return when devices were heard of since this was called last, in seconds since 1970."""
        seen, self._seen = self._seen, {}
        return seen

    def join(self, heard: Callable[[Kind], None]) -> None:
        """Begin to serve beside other servers, where the fleet can have several.

        ``heard``: is called by a thread when another one told something, or may have.
        """

        def hear(kind: Kind) -> None:
            if kind == "work":
                self.state = object()
            heard(kind)

        if self._postgres is not None:
            self._servers = Servers(self._postgres.listening, self._postgres.server, self._postgres.number, hear)
            self._servers.start()

    def hurry(self, seconds: float) -> None:
        """Wait for a database elsewhere no longer than some seconds, for the server ends."""
        if self._postgres is not None:
            self._postgres.hurry(seconds)

    def leave(self) -> None:
        """End what :meth:`join` began, and let another server move rounds."""
        if self._servers is not None:
            self._servers.end()

    def tell(self, kind: Kind) -> None:
        """Tell the other servers that something changed. Any thread may call this."""
        if self._servers is not None:
            self._servers.tell(kind)

    def leading(self) -> AbstractContextManager[int | None]:
        """A step of the rounds: a number that grows with other servers' steps; 0: no other is there; None: one leads.

        A write within it raises LeaseLostError once another server may make steps.
        """
        return nullcontext(0) if self._servers is None else self._servers.leading()

    def remove_unnamed(self, digests: Sequence[str]) -> int:
        """Remove those of some old blobs that no row names; return how many.

        No server can name one meanwhile (postgres_tables.py). What the store does not remove now is left for later.
        Raises LeaseLostError: another server makes the steps by now. StateAwayError: the database does not answer.
        """
        with self.reading() as session:
            unnamed = set(digests) - set(session.scalars(select(BlobRow.sha256).where(BlobRow.sha256.in_(digests))))
        if not unnamed:
            return 0
        if self._postgres is None:  # this process alone writes rows that name blobs
            return sum(self._is_removed(sha256) for sha256 in sorted(unnamed))
        with self.writing() as session:
            unnamed = note_removals(session, sorted(unnamed))  # from now on no row can name them
        removed, uncertain = 0, set()
        try:
            for sha256 in sorted(unnamed):
                with self.reading() as session:  # another server may have taken the step meanwhile
                    require_lease(session)
                if self._is_removed(sha256):
                    removed += 1
                else:
                    uncertain.add(sha256)
        finally:
            self._postgres.end_removal(unnamed - uncertain)
        return removed

    def _is_removed(self, sha256: str) -> bool:
        try:
            self.blobs.remove(sha256)
        except OSError as error:
            _log.warning("%s; an array that nothing names stays for now", error)
            return False
        return True

    def close(self) -> None:
        """Close every connection and unlock the folder."""
        self.leave()
        super().close()
        self._lock.close()


def open_blobs(location: Location) -> BlobStore:
    """Return the blobs of a fleet. Raises StartError: the store cannot be used."""
    folder = location.blob_folder
    if folder is not None:
        return BlobFolder(folder)
    assert location.store is not None
    return ObjectBlobs(location.store, location.data / "objects")


def _open_database(location: Location, blobs: BlobStore, *, create: bool) -> Database:
    identity = Identity(blobs)
    if location.database is not None:
        return open_postgres(location.database, identity, create=create)
    require_own_tables(location)
    return open_sqlite(location.data / DATABASE, identity, upgrade=create)


def _require_undamaged(location: Location) -> None:
    """Refuse a damaged database before a server changes it. Raises StartError: it is damaged; names the last copy."""
    file = location.file
    if file is None or not file.exists():
        return
    damage = damage_of(file)
    if damage:
        raise StartError(f"{file} is damaged ({damage[0]}), so no server starts with it; {way_back(location.data)}")


@contextmanager
def alone(location: Location) -> Iterator[bool]:
    """Hold the state of a fleet where no server does; say whether. Raises StartError: the folder cannot be written."""
    try:
        file = (location.data / LOCK).open("a")
    except OSError as error:
        raise StartError(
            f"data folder {location.data} cannot be used ({error}); name a folder that this user can write to"
        ) from error
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        if location.database is None:
            yield True
            return
        with closing(open_tables(location)) as tables:
            assert isinstance(tables.database, Postgres)
            yield tables.database.hold()


def running_instance(folder: Path) -> str | None:
    """Return the instance of the server that has a data folder open; None where none has."""
    try:
        lock = (folder / LOCK).open("rb")
    except FileNotFoundError:
        return None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read().decode()
    return None


def require_own_tables(location: Location) -> None:
    """Refuse tables in a folder whose fleet is elsewhere. Raises StartError: it is; says where."""
    if location.database is not None:
        return
    noted = noted_state(location.data)
    if "moved_to" in noted:
        raise StartError(
            f"the fleet of data folder {location.data} was moved to {noted['moved_to']}; run it there. What is here "
            "has stayed as it was then"
        )
    if "database" in noted:
        raise StartError(f"the fleet of data folder {location.data} is in {noted['database']}; name it by --database")


def is_data_folder(place: Path | Location) -> bool:
    """Say whether an aggregator has run with a folder, or its tables are elsewhere."""
    location = locate(place)
    return location.database is not None or (location.data / DATABASE).is_file()


def why_not_meant(place: Path | Location) -> str | None:
    """Return why a place does not look like one for a fleet: it is not there, or holds other things.

    None: it holds a fleet, or a part of one, or it is an empty folder, as an installer makes it. Raises StartError: it
    cannot be read.
    """
    location = locate(place)
    if location.database is not None:
        return None if has_fleet(location.database) else f"the database {location.tables_shown} is empty"
    folder = location.data
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        raise StartError(f"data folder {folder} cannot be used ({error}); name a folder of yours") from error
    if not names or names & _OF_A_FLEET:
        return None
    return f"it holds other files, such as {min(names)}"


def open_tables(place: Path | Location) -> Tables:
    """Open the tables of a fleet that exists, also while a server runs with it.

    Raises StartError: there is none, another release wrote it, or it was moved. StateAwayError: the object store does
    not answer.
    """
    location = locate(place)
    require_own_tables(location)
    if not is_data_folder(location):
        raise StartError(
            f"{location.data} is no data folder: it has no {DATABASE}. Name the folder that the server runs with "
            "(`auricle-aggregator run --data FOLDER --create` makes one)"
        )
    return Tables(_open_database(location, open_blobs(location), create=False))
