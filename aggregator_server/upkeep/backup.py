"""Copies of a fleet's state in a file, one or the newest ones in a folder, and the state of a copy again.

A copy is the same whatever the state is in: the tables as a file of SQLite, the blobs, and the data folder's own files.
"""

import fcntl
import os
import re
import secrets
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session

from aggregator_server.errors import BackupError, BlobError
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.data_folder import LOCK, is_data_folder, require_own_tables
from aggregator_server.store.database import damage_of
from aggregator_server.store.free_space import free_space, is_full, size_of
from aggregator_server.store.location import DATABASE, NOTE, Location, locate, note_copy, note_state, way_back
from aggregator_server.store.needed_blobs import lasting, open_uploads
from aggregator_server.store.opening import open_blobs
from aggregator_server.upkeep.backup_archive import DIGESTS, BackupWriter, open_backup, written_backup
from aggregator_server.upkeep.copying import copy_tables, file_of_tables, take_elsewhere, upgrade_tables
from fleet_protocol.errors import BackupFormatError
from fleet_protocol.ground.atomic_files import flush_folder, make_folder

# Of a running server alone, beside what begins with a dot.
_OF_SERVER = {f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK}
_ELSEWHERE = {DATABASE, "blobs", "objects", NOTE}  # what a copy has in another way, or not at all
_TRIES = 5
_COPY = re.compile(r"auricle-\d{8}T\d{6}Z\.tar")


def back_up(place: Path | Location, file: Path) -> None:
    """Copy the state of a fleet into a new file; a server may run on it.

    Raises BackupError: no data folder, the file exists, or something is missing or damaged. OSError: the disk refuses.
    """
    location = locate(place)
    write_copy(location, file)
    note_copy(location.data, file)


def write_copy(location: Location, file: Path) -> None:
    """Do what :func:`back_up` does, and note nowhere that it was done."""
    require_folder(location)
    if file.exists():
        raise BackupError(f"{file} exists already; name another file, or remove it first")
    if not file.parent.is_dir():
        raise BackupError(f"{file} cannot be made: there is no folder {file.parent}; make it first")
    tables = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    for _ in range(_TRIES):
        try:
            _copy_whole_tables(location, tables)
            with written_backup(file) as backup:
                files = [(DATABASE, tables)]
                files += [(path.relative_to(location.data).as_posix(), path) for path in _files_beside(location.data)]
                for name, path in files:
                    with path.open("rb") as content:
                        backup.add(name, content, os.fstat(content.fileno()).st_size)
                _add_blobs(backup, tables, open_blobs(location))
                return
        except _RoundEndedError:
            continue
        finally:
            tables.unlink(missing_ok=True)
    raise BackupError(f"the rounds of {location.data} end faster than they can be copied; try again")


def back_up_into(place: Path | Location, copies: Path, keep: int, now: float) -> Path:
    """Copy the state of a fleet into a file named by the time; then remove all but the newest ``keep`` copies.

    Nothing is removed before the new copy is whole, so the disk needs room for one more than are kept. Files of other
    names stay. Returns the file. Raises BackupError: there is no data folder, too little space, or another backup runs.
    OSError: the disk refuses.
    """
    if keep < 1:
        raise BackupError(f"--keep must be at least 1, not {keep}")
    require_folder(place)
    if copies.is_file():
        raise BackupError(f"{copies} is a file; with --keep, name a folder for the copies")
    make_folder(copies)
    with _only_one(copies):
        for leftover in copies.glob(".auricle-*.tar.*"):  # of a backup that was killed
            leftover.unlink()
        _require_room(locate(place), copies)
        made = copies / f"auricle-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}.tar"
        back_up(place, made)
        # By their names. A clock that was set back makes the new copy the first; it stays all the same.
        others = sorted(path for path in copies.iterdir() if _COPY.fullmatch(path.name) and path != made)
        for old in others[: len(others) - keep + 1]:
            old.unlink()
        flush_folder(copies)
    return made


@contextmanager
def _only_one(copies: Path) -> Iterator[None]:
    descriptor = os.open(copies, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise BackupError(f"another backup into {copies} runs; wait for its end") from error
    finally:
        os.close(descriptor)


def _require_room(location: Location, copies: Path) -> None:
    """Refuse a copy that would take the room which the server needs on the same disk."""
    needed = sum(size_of(path) for path in location.data.rglob("*") if not _COPY.fullmatch(path.name))
    if location.store is not None:
        needed += sum(entry.size for entry in open_blobs(location).entries())
    room = free_space(copies)
    if room.free - needed < room.kept:
        raise BackupError(
            f"{copies} has too little space for another copy: {room.free / 1e6:.0f} MB are free, the copy takes up to "
            f"{needed / 1e6:.0f} MB, and {room.kept / 1e6:.0f} MB stay free; keep fewer copies (--keep), or "
            "have them on another disk"
        )


def restore(file: Path, place: Path | Location) -> None:
    """Make the state of a fleet of a backup. A kill leaves the data folder as it was.

    The data folder is empty or does not exist, and so are a database and a store beside it, unless a restoration of the
    same backup to them was interrupted. Raises BackupError: the file is damaged, or the folder holds something.
    StartError: a database or a store beside it does, or cannot be used. OSError: the disk refuses.
    """
    location = locate(place)
    folder = location.data
    if folder.exists() and any(folder.iterdir()):
        raise BackupError(f"{folder} is not empty; restore into a new folder, and start the server with that one")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        unpack(file, temporary)
        take_elsewhere(location, temporary)
        note_state(replace(location, data=temporary))
        if folder.exists():
            folder.rmdir()
        temporary.replace(folder)
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def unpack(file: Path, folder: Path) -> None:
    """Write a backup's files into a new folder, durably and checked. Raises BackupError: it is damaged, or none."""
    folder.mkdir(mode=0o700, parents=True)
    try:
        with open_backup(file) as backup:
            if not isinstance(backup.digests, dict) or DATABASE not in backup.digests:
                raise BackupFormatError(f"its {DIGESTS} does not have {DATABASE}")
            for name in sorted(backup.names):
                if _is_of_server(name):
                    raise BackupFormatError(f"{name!r} is not a file of one")
            backup.unpack(folder)
        damage = damage_of(folder / DATABASE)
        if damage:
            raise BackupFormatError(f"its database: {damage[0]}")
        upgrade_tables(folder / DATABASE, f"the backup {file}")
    except BackupFormatError as error:
        raise BackupError(
            f"{file} is no backup of an aggregator, or damaged ({error}); use another one{_another(file)}"
        ) from error
    make_folder(folder / "blobs" / "incoming")


def _another(file: Path) -> str:
    """Return the newest copy beside a damaged one, for people; "" where there is none."""
    others = sorted(path for path in file.parent.glob("auricle-*.tar") if path.name != file.name)
    return f", such as {others[-1]}" if others else ""


def require_folder(place: Path | Location) -> None:
    """Refuse a folder that is no data folder. Raises BackupError: there is none; StartError: it was moved."""
    location = locate(place)
    require_own_tables(location)
    if not is_data_folder(location):
        raise BackupError(f"{location.data} is no data folder of an aggregator: it has no {DATABASE}; check --data")


class _RoundEndedError(Exception):
    """An upload was removed while it was to be copied, because its round ended."""


def _copy_whole_tables(location: Location, copy: Path) -> None:
    """Copy the tables, and check the copy. Raises BackupError: they are damaged."""
    try:
        copy_tables(location, copy)
        damage = damage_of(copy)
        if not damage:
            upgrade_tables(copy, location.tables_shown)
    except sqlite3.DatabaseError as error:
        if is_full(error, copy.parent):
            raise BackupError(f"the disk of {copy.parent} is full; free space there") from error
        damage = [str(error)]
    if damage:
        raise BackupError(
            f"{location.tables_shown} is damaged ({damage[0]}), so it was not backed up; {way_back(location.data)}"
        )


def _files_beside(folder: Path) -> list[Path]:
    """Return the files beside database and blobs: tokens and keys. Copies of the fleet are none of them."""
    tops = [path for path in sorted(folder.iterdir()) if path.name not in _ELSEWHERE and not _is_of_server(path.name)]
    found = [path for top in tops for path in (sorted(top.rglob("*")) if top.is_dir() else [top]) if path.is_file()]
    return [path for path in found if not path.name.startswith(".") and not _is_copy(path)]


def _is_copy(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(tarfile.BLOCKSIZE)
    return head.startswith(f"{DATABASE}\0".encode()) and head[257:262] == b"ustar"


def _is_of_server(name: str) -> bool:
    top = name.partition("/")[0]
    return top in _OF_SERVER or top.startswith(".")


def _add_blobs(backup: BackupWriter, tables: Path, blobs: BlobStore) -> None:
    with file_of_tables(tables) as engine, Session(engine) as session:
        there, sent = lasting(session), open_uploads(session)
    for upload in sent:
        if not blobs.exists(upload.sha256):
            raise _RoundEndedError
        there[upload.sha256] = f"upload of device {upload.device_id}"
    for sha256, needed_by in sorted(there.items()):
        if not _is_added(backup, blobs, sha256):
            raise BackupError(
                f"blob {blobs.shown(sha256)} ({needed_by}) is missing or damaged; `auricle-aggregator check` says more"
            )


def _is_added(backup: BackupWriter, blobs: BlobStore, sha256: str) -> bool:
    """Add a blob; say whether it is whole."""
    try:
        with blobs.open(sha256) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            return backup.add(f"blobs/{sha256[:2]}/{sha256}", file, size) == sha256
    except (BlobError, BackupFormatError):
        return False
