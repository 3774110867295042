"""Copies of a fleet's state in a file, and which blobs its rows need.

A copy is the same whatever the state is in: the tables as a file of SQLite, the blobs, and the data folder's own files.
"""

import contextlib
import hashlib
import io
import json
import secrets
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from sqlalchemy import Column, Engine, create_engine, select
from sqlalchemy.orm import Session

from aggregator_server.errors import BackupError, BlobError
from aggregator_server.rounds.states import IS_OPEN
from aggregator_server.store import (
    DATABASE,
    LOCK,
    MOVED,
    is_data_folder,
    migrations,
    open_blobs,
    open_tables,
    require_not_moved,
)
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.location import Location, locate
from aggregator_server.store.tables import Base, BlobRow, ParticipantRow, RoundRow
from aggregator_server.upkeep.copying import copy_tables, take_elsewhere
from fleet_protocol.atomic_files import flush_folder, make_folder, rename_durably, write_durably
from fleet_protocol.backup_archive import open_backup
from fleet_protocol.errors import BackupFormatError

_DIGEST = cast("Column[str]", BlobRow.__table__.c.sha256)


@dataclass(frozen=True)
class OpenUpload:
    """A device's upload in the open round; the device could send it again."""

    sha256: str
    device_id: str
    round_id: int


def open_uploads(session: Session) -> list[OpenUpload]:
    """Return the uploads of the open round, by device."""
    found = (
        select(ParticipantRow.upload, ParticipantRow.device_id, ParticipantRow.round_id)
        .join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
        .where(IS_OPEN, ParticipantRow.upload.is_not(None))
        .order_by(ParticipantRow.device_id)
    )
    return [OpenUpload(str(sha256), device_id, number) for sha256, device_id, number in session.execute(found)]


def other_uploads(session: Session) -> set[str]:
    """Return the digests of the uploads of rounds that are over, which need not be on disk."""
    everything = session.scalars(select(ParticipantRow.upload).where(ParticipantRow.upload.is_not(None)))
    return {str(sha256) for sha256 in everything} - {upload.sha256 for upload in open_uploads(session)}


def lasting(session: Session) -> dict[str, str]:
    """Return every blob but the uploads that has to be there, with the row that names it, for people."""
    found: dict[str, str] = {}
    for column, key in _columns():
        for sha256, row in session.execute(select(column, key).where(column.is_not(None)).order_by(key.desc())):
            found.setdefault(sha256, f"{column.name} of {key.name} {row} in {column.table.name}")
    return found


def _columns() -> Iterator[tuple[Column[str], Column[object]]]:
    """Yield every column that names a blob but the uploads', and the key of its table."""
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if column.references(_DIGEST) and column.table is not ParticipantRow.__table__:
                yield column, next(iter(table.primary_key.columns))


_DIGESTS = "digests.json"
# Of a running server alone.
_OF_SERVER = {f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK}
# In the data folder, and in no copy of it: its age is that of the newest copy.
_NOTE = ".backed-up"
_TRIES = 5


def back_up(place: Path | Location, file: Path) -> int:
    """Copy the state of a fleet into a file; a server may run on it. Return the file's size in bytes.

    Args:
        file: New file; it must not exist.

    Raises:
        BackupError: there is no data folder, the file exists, or a blob is missing or damaged.
        OSError: the disk refuses.
    """
    location = locate(place)
    folder = location.data
    require_folder(location)
    if file.exists():
        raise BackupError(f"{file} exists already; name another file, or remove it first")
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        for _ in range(_TRIES):
            with contextlib.suppress(_RoundEndedError):
                _write(location, temporary, file)
                write_durably(folder / _NOTE, b"")
                return file.stat().st_size
    finally:
        temporary.unlink(missing_ok=True)
        _copy_of(temporary).unlink(missing_ok=True)
    raise BackupError(f"the rounds of {folder} end faster than they can be copied; try again")


def backed_up_at(folder: Path) -> float:
    """Return when a data folder was last backed up, in seconds since 1970; 0 where it never was."""
    try:
        return (folder / _NOTE).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def restore(file: Path, place: Path | Location) -> None:
    """Make the state of a fleet of a backup. A kill leaves the data folder as it was.

    Args:
        place: where to; the data folder is empty or does not exist, and so are a database and a store beside it, unless
            a restoration of the same backup to them was interrupted.

    Raises:
        BackupError: the file is no backup or damaged, or the folder holds something.
        StartError: a database or a store beside it holds something else, or cannot be used.
        OSError: the disk refuses.
    """
    location = locate(place)
    folder = location.data
    if folder.exists() and any(folder.iterdir()):
        raise BackupError(f"{folder} is not empty; restore into a new folder, and start the server with that one")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        temporary.mkdir(mode=0o700, parents=True)
        _unpack(file, temporary)
        take_elsewhere(location, temporary)
        if folder.exists():
            folder.rmdir()
        temporary.replace(folder)
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_folder(place: Path | Location) -> None:
    """Refuse a folder that is no data folder. Raises BackupError: there is none; StartError: it was moved."""
    location = locate(place)
    require_not_moved(location)
    if not is_data_folder(location):
        raise BackupError(f"{location.data} is no data folder of an aggregator: it has no {DATABASE}; check --data")


class _RoundEndedError(Exception):
    """An upload was removed while it was to be copied, because its round ended."""


def _write(location: Location, temporary: Path, file: Path) -> None:
    digests: dict[str, str] = {}
    copy, folder = _copy_of(temporary), location.data
    if location.file is None:
        copy_tables(location, copy)
    else:
        _copy_database(location.file, copy)
    blobs = open_blobs(location)
    with temporary.open("wb") as raw:
        temporary.chmod(0o600)  # it holds tokens
        with tarfile.open(fileobj=raw, mode="w") as archive:
            digests[DATABASE] = _add(archive, DATABASE, copy)
            for path in files_beside(folder):
                name = path.relative_to(folder).as_posix()
                digests[name] = _add(archive, name, path)
            for sha256, needed_by in _blobs(copy, blobs):
                digests[_name_of(sha256)] = _add_blob(archive, blobs, sha256, needed_by)
            _append(archive, _DIGESTS, json.dumps(digests, indent=1).encode())
        rename_durably(raw, temporary, file)


def _copy_of(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name}.db")


def _copy_database(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        target.chmod(0o600)
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # one file


def files_beside(folder: Path) -> list[Path]:
    """Return the files beside database and blobs: tokens and keys."""
    own = {DATABASE, "blobs", "objects", MOVED}
    tops = [path for path in sorted(folder.iterdir()) if path.name not in own and not _is_made_anew(path.name)]
    return [path for top in tops for path in (sorted(top.rglob("*")) if top.is_dir() else [top]) if path.is_file()]


def _name_of(sha256: str) -> str:
    """Return a blob's name in the archive."""
    return f"blobs/{sha256[:2]}/{sha256}"


def _blobs(database: Path, blobs: BlobStore) -> Iterator[tuple[str, str]]:
    """Yield the blobs that a database needs, and who needs each, for people."""
    with reading(database) as session:
        there, sent, others = lasting(session), open_uploads(session), other_uploads(session)
    for sha256 in sorted(others - set(there)):
        if blobs.exists(sha256):  # kept for a while, or by --keep-uploads
            there[sha256] = "an upload"
    for upload in sent:
        if not blobs.exists(upload.sha256):
            raise _RoundEndedError
        there[upload.sha256] = f"upload of device {upload.device_id}"
    yield from sorted(there.items())


def _add_blob(archive: tarfile.TarFile, blobs: BlobStore, sha256: str, needed_by: str) -> str:
    """Add a blob, and compare it with its digest while it is copied."""
    size = blobs.size(sha256)
    try:
        with blobs.open(sha256) as file:
            is_whole = _add_file(archive, _name_of(sha256), file, size) == sha256
    except (BlobError, tarfile.TarError):
        is_whole = False
    if not is_whole:
        raise BackupError(
            f"blob {blobs.shown(sha256)} ({needed_by}) is missing or damaged; `auricle-aggregator check` says more"
        )
    return sha256


@contextlib.contextmanager
def reading(place: Path | Location, *, writes: bool = False) -> Iterator[Session]:
    """Open a session without a store around it: on a file of SQLite that nobody else writes, or on PostgreSQL.

    Args:
        place: the file, or where the state is.
        writes: whether what is done in it is kept.

    Raises:
        BackupError: its tables are not those of this release.
    """
    database = place if isinstance(place, Path) else place.file
    if database is None:
        assert isinstance(place, Location)
        tables = open_tables(place)
        try:
            with tables.writing() if writes else tables.reading() as session:
                yield session
        finally:
            tables.close()
        return
    engine: Engine = create_engine(f"sqlite:///{database}")
    try:
        with engine.connect() as connection:
            migrations.require_newest(connection, str(database))
        with Session(engine) as session:
            yield session
            if writes:
                session.commit()
    finally:
        engine.dispose()


class _Digesting:
    """A file that is digested while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _add(archive: tarfile.TarFile, name: str, path: Path) -> str:
    """Add a file; return the SHA-256 of what was added."""
    with path.open("rb") as file:
        return _add_file(archive, name, file, path.stat().st_size)


def _add_file(archive: tarfile.TarFile, name: str, file: BinaryIO, size: int) -> str:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(time.time())
    read = _Digesting(file)
    archive.addfile(info, read)
    return read.digest.hexdigest()


def _append(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    archive.addfile(info, io.BytesIO(data))


def _unpack(file: Path, folder: Path) -> None:
    """Write a backup's files into an empty folder, durably, and compare every one with its digest."""
    try:
        with open_backup(file, _DIGESTS) as backup:
            digests = backup.manifest
            if not isinstance(digests, dict) or DATABASE not in digests:
                raise BackupFormatError(f"its {_DIGESTS} does not have {DATABASE}")
            for name in sorted(backup.names):
                if _is_made_anew(name):
                    raise BackupFormatError(f"{name!r} is not a file of one")
            backup.unpack(folder, digests)
    except BackupFormatError as error:
        raise BackupError(f"{file} is no backup of an aggregator, or damaged ({error}); use another one") from error
    make_folder(folder / "blobs" / "incoming")


def _is_made_anew(name: str) -> bool:
    """Say whether a name is that of a file which belongs to a running server."""
    top = name.partition("/")[0]
    return top in _OF_SERVER or top.startswith(".")
