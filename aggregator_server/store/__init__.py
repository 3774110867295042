"""The storage of the fleet's state: tables for what changes, content-addressed blobs for arrays.

docs/architecture.md, "A round is rows in a database", says why.
"""

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, Executable
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from aggregator_server.errors import StartError
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.store.database import FolderIdentity, create_database
from aggregator_server.store.free_space import full, is_full

__all__ = ["DATABASE", "LOCK", "KeptUploads", "Store", "Tables", "is_data_folder", "open_tables", "why_not_meant"]

# Files of a data folder.
DATABASE, LOCK = "auricle.db", "lock"
# Any of these says that a folder was meant for a fleet; the lock is the first that a start makes.
_OF_A_FLEET = frozenset({DATABASE, LOCK, "blobs", "fleet.id", "tokens.json"})

KeptUploads = Literal["none", "last", "all"]
"""Of which rounds that are over the uploads are kept: the last one's are what a restoration without a device needs."""


class Tables:
    """The tables of a data folder: ``auricle.db`` (SQLite, write-ahead log). Several processes may have them open.

    Attributes:
        state: Another object after every transaction that wrote. Other processes write no rounds, classes or models.
    """

    def __init__(self, engine: Engine) -> None:
        self.state = object()
        self._engine = engine
        self._reader: Connection | None = None
        self._reader_thread = 0  # the thread that may use it

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one consistent state; nothing that is done in it is kept."""
        with Session(self._engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Session]:
        """A session that holds the write lock and commits durably at the end, or changes nothing on an error.

        Without ``durable``, a power cut may undo the commit until :meth:`flush` was called. It then undoes every later
        one too: the log is read up to its first damaged page.
        """
        writer = self._engine.execution_options(auricle_write="durable" if durable else "soon")
        with Session(writer, expire_on_commit=False) as session, session.begin():
            yield session
        self.state = object()

    def flush(self) -> None:
        """Make durable whatever was committed before. Raises OSError: the disk refuses."""
        try:
            log = os.open(f"{self._engine.url.database}-wal", os.O_RDONLY)
        except FileNotFoundError:  # all of it is in the database itself
            return
        try:
            os.fdatasync(log)
        finally:
            os.close(log)

    def first_row(self, statement: Executable, parameters: Mapping[str, object]) -> Any:  # noqa: ANN401  (a row)
        """Return the first row that a statement finds by a key, or None.

        Only the thread of the event loop may call this. To read one row of SQLite takes a tenth of what it takes to
        have another thread do it, and no writer keeps a reader waiting.
        """
        if self._reader is None:
            self._reader_thread = threading.get_ident()
            self._reader = self._engine.connect().execution_options(auricle_autocommit=True)
        if threading.get_ident() != self._reader_thread:
            raise RuntimeError("a second thread reads rows by their keys; only that of the event loop may")
        try:
            return self._reader.execute(statement, parameters).first()
        except SQLAlchemyError:
            self._reader.close()
            self._reader = None
            raise

    def close(self) -> None:
        """Close every connection."""
        if self._reader is not None:
            self._reader.close()
        self._engine.dispose()


class Store(Tables):
    """A data folder: the tables and ``blobs/``. One process may have it open.

    Attributes:
        blobs: The arrays. A blob is on disk before any row names it; uploads are removed when their round is over.
        keep_uploads: Rounds whose uploads stay on disk.
        review_classes: Whether new classes wait for an operator.
    """

    def __init__(self, folder: Path, *, keep_uploads: KeptUploads = "last", review_classes: bool = False) -> None:
        """Open a data folder, creating what it lacks.

        Raises:
            StartError: it cannot be created or written, somebody else has it open, another version wrote it, or its
                database is not the one that belongs to its blobs.
        """
        self.folder = folder
        self.keep_uploads = keep_uploads
        self.review_classes = review_classes
        self._seen: dict[str, float] = {}
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.blobs = BlobFolder(folder / "blobs")
            self.blobs.remove_leftovers()
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
            super().__init__(create_database(folder / DATABASE, _identity(folder)))
        except StartError:
            self._lock.close()
            raise

    def note_seen(self, device_id: str, now: float) -> None:
        """Keep in memory when a device was last heard of; rounds/queries.py writes it. Any thread may call this."""
        self._seen[device_id] = now

    def take_seen(self) -> dict[str, float]:
        """Return when devices were heard of since this was called last, in seconds since 1970."""
        seen, self._seen = self._seen, {}
        return seen

    def close(self) -> None:
        """Close every connection and unlock the folder."""
        super().close()
        self._lock.close()


def is_data_folder(folder: Path) -> bool:
    """Say whether an aggregator has run with a folder."""
    return (folder / DATABASE).is_file()


def why_not_meant(folder: Path) -> str | None:
    """Return why a folder does not look like one for a fleet: it is not there, or holds other files.

    None: it holds a fleet, or a part of one, or it is empty, as an installer makes it.

    Raises:
        StartError: it cannot be read.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        raise StartError(f"data folder {folder} cannot be used ({error}); name a folder of yours") from error
    if not names or names & _OF_A_FLEET:
        return None
    return f"it holds other files, such as {min(names)}"


def open_tables(folder: Path) -> Tables:
    """Open the tables of a data folder that exists, also while a server runs with it.

    Raises:
        StartError: the folder is no data folder, or another version wrote it.
    """
    if not is_data_folder(folder):
        raise StartError(
            f"{folder} is no data folder: it has no {DATABASE}. Name the folder that the server runs with "
            "(`auricle-aggregator run --data FOLDER --create` makes one)"
        )
    return Tables(create_database(folder / DATABASE, _identity(folder)))


def _identity(folder: Path) -> FolderIdentity:
    return FolderIdentity(folder, has_blobs=any((folder / "blobs").glob("??/*")))
