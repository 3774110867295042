"""Which blobs the rows of a data folder need."""

import contextlib
import hashlib
import io
import json
import secrets
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from sqlalchemy import Column, Engine, create_engine, select
from sqlalchemy.orm import Session

from aggregator_server.errors import BackupError
from aggregator_server.rounds.states import IS_OPEN
from aggregator_server.store import DATABASE, LOCK, is_data_folder, migrations
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.store.tables import Base, BlobRow, ParticipantRow, RoundRow
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


def back_up(folder: Path, file: Path) -> int:
    """Copy a data folder into a file; a server may run on it. Return the file's size in bytes.

    Args:
        file: New file; it must not exist.

    Raises:
        BackupError: there is no data folder, the file exists, or a blob is missing or damaged.
        OSError: the disk refuses.
    """
    require_folder(folder)
    if file.exists():
        raise BackupError(f"{file} exists already; name another file, or remove it first")
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        for _ in range(_TRIES):
            with contextlib.suppress(_RoundEndedError):
                _write(folder, temporary, file)
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


def restore(file: Path, folder: Path) -> None:
    """Make a data folder of a backup. A kill leaves the folder as it was.

    Args:
        folder: Folder that is empty or does not exist.

    Raises:
        BackupError: the file is no backup or damaged, or the folder holds something.
        OSError: the disk refuses.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BackupError(f"{folder} is not empty; restore into a new folder, and start the server with that one")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        temporary.mkdir(mode=0o700, parents=True)
        _unpack(file, temporary)
        if folder.exists():
            folder.rmdir()
        temporary.replace(folder)
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_folder(folder: Path) -> None:
    """Refuse a folder that is no data folder. Raises BackupError: there is none."""
    if not is_data_folder(folder):
        raise BackupError(f"{folder} is no data folder of an aggregator: it has no {DATABASE}; check --data")


class _RoundEndedError(Exception):
    """An upload was removed while it was to be copied, because its round ended."""


def _write(folder: Path, temporary: Path, file: Path) -> None:
    digests: dict[str, str] = {}
    copy = _copy_of(temporary)
    _copy_database(folder / DATABASE, copy)
    with temporary.open("wb") as raw:
        temporary.chmod(0o600)  # it holds tokens
        with tarfile.open(fileobj=raw, mode="w") as archive:
            digests[DATABASE] = _add(archive, DATABASE, copy)
            for path in _beside(folder):
                name = path.relative_to(folder).as_posix()
                digests[name] = _add(archive, name, path)
            for blob in _blobs(copy, BlobFolder(folder / "blobs")):
                digests[blob.name] = _add_blob(archive, blob)
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


def _beside(folder: Path) -> list[Path]:
    """Return the files beside database and blobs: tokens and keys."""
    own = {DATABASE, "blobs"}
    tops = [path for path in sorted(folder.iterdir()) if path.name not in own and not _is_made_anew(path.name)]
    return [path for top in tops for path in (sorted(top.rglob("*")) if top.is_dir() else [top]) if path.is_file()]


@dataclass(frozen=True)
class _Blob:
    """A blob that a database needs: its digest, where it is, and who needs it, for people."""

    sha256: str
    path: Path
    needed_by: str

    @property
    def name(self) -> str:
        """In the archive."""
        return f"blobs/{self.sha256[:2]}/{self.sha256}"


def _blobs(database: Path, blobs: BlobFolder) -> Iterator[_Blob]:
    """Yield the blobs that a database needs."""
    with reading(database) as session:
        there, sent, others = lasting(session), open_uploads(session), other_uploads(session)
    for sha256 in sorted(others - set(there)):
        if blobs.path(sha256).is_file():  # kept for a while, or by --keep-uploads
            there[sha256] = "an upload"
    for upload in sent:
        if not blobs.path(upload.sha256).is_file():
            raise _RoundEndedError
        there[upload.sha256] = f"upload of device {upload.device_id}"
    for sha256, needed_by in sorted(there.items()):
        yield _Blob(sha256, blobs.path(sha256), needed_by)


def _add_blob(archive: tarfile.TarFile, blob: _Blob) -> str:
    """Add a blob, and compare it with its digest while it is copied."""
    if not blob.path.is_file() or _add(archive, blob.name, blob.path) != blob.sha256:
        raise BackupError(
            f"blob {blob.path} ({blob.needed_by}) is missing or damaged; `auricle-aggregator check` says more"
        )
    return blob.sha256


@contextlib.contextmanager
def reading(database: Path) -> Iterator[Session]:
    """Open a session on a database that nobody else writes, without a store around it.

    Raises:
        BackupError: its tables are not those of this release.
    """
    engine: Engine = create_engine(f"sqlite:///{database}")
    try:
        with engine.connect() as connection:
            found = migrations.revision(connection)
        if found != migrations.newest():
            raise BackupError(
                f"{database.parent} has tables of revision {found or 'none'}, this release reads "
                f"{migrations.newest()}; start the server of this release once, or use the release that wrote it"
            )
        with Session(engine) as session:
            yield session
    finally:
        engine.dispose()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        info = archive.gettarinfo(arcname=name, fileobj=file)
        info.mode, info.uid, info.gid, info.uname, info.gname = 0o600, 0, 0, "", ""
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
