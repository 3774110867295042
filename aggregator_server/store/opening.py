"""Opens the state of a fleet: for a server, for a command beside it, or where no server runs."""

import fcntl
import io
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from aggregator_server.errors import StartError
from aggregator_server.store.blobs import BlobFolder, BlobStore
from aggregator_server.store.data_folder import LOCK, is_data_folder, require_own_tables
from aggregator_server.store.database import Database, damage_of, open_sqlite
from aggregator_server.store.free_space import full, is_full
from aggregator_server.store.identity import Identity
from aggregator_server.store.location import DATABASE, Location, locate, note_state, way_back
from aggregator_server.store.objects import ObjectBlobs
from aggregator_server.store.postgres.database import Postgres, open_postgres
from aggregator_server.store.postgres.shared_store import SharedStore
from aggregator_server.store.store import Store, Tables

_ABANDONED_S = 86_400.0  # after which nobody receives a file of a folder that servers share


def open_store(place: Path | Location) -> Store:
    """Open the state for a server, creating what it lacks.

    ``place``: where it is; a data folder has all of it. Raises StartError: it cannot be created or written, somebody
    else has it open, another version wrote it, it was moved, or its database is not the one that belongs to its blobs.
    """
    location = locate(place)
    with ExitStack() as opened:
        lock, instance, blobs = _take_folder(location, opened)
        _require_undamaged(location)
        database = _open_database(location, blobs, create=True)
        if isinstance(database, Postgres) and not database.hold(shared=location.is_shared):
            database.close()
            raise StartError(
                f"the fleet in {location.tables_shown} is in use by another aggregator, which shares it with none, "
                "or by a command such as `move`; stop that one. Servers with a --store share a fleet"
            )
        note_state(location)
        opened.pop_all()
    kind = SharedStore if isinstance(database, Postgres) else Store
    return kind(location, lock, instance, blobs, database)


def _take_folder(location: Location, opened: ExitStack) -> tuple[io.FileIO, str, BlobStore]:
    """Lock the data folder, and open the blobs; return lock, instance and blobs."""
    folder, instance = location.data, secrets.token_hex(8)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = opened.enter_context((folder / LOCK).open("ab", buffering=0))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(instance.encode())
        blobs = open_blobs(location)
        blobs.remove_leftovers(_ABANDONED_S if location.is_shared else 0.0)
    except BlockingIOError as error:
        raise StartError(f"data folder {folder} is in use by another aggregator; stop that one first") from error
    except OSError as error:
        if is_full(error, folder):
            raise full(folder) from error
        raise StartError(
            f"data folder {folder} cannot be used ({error}); choose a folder that this user can write to"
        ) from error
    return lock, instance, blobs


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
