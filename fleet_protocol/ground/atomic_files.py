"""Files that survive a power cut: written beside their place, flushed to the disk, renamed, and the folder flushed.

What root writes into a service's folder belongs to the folder's owner: the service must be able to read it.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PERHAPS_FULL = ("disk I/O error", "unable to open database file")
_TO_OPEN_BYTES = 2**20  # a database's log, its index and a journal take a tenth of it
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")


def write_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file's content; after a power cut it has the old content or the new, whole. Raises OSError."""
    with written_durably(path, mode) as file:
        file.write(data)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content, whole for every reader; a power cut may undo or damage it. Raises OSError."""
    with _temporary(path, 0o600) as (file, temporary):
        file.write(data)
        file.flush()
        temporary.replace(path)


@contextlib.contextmanager
def written_durably(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Replace a file's content by what the body writes; where it fails, the file stays as it was. Raises OSError."""
    make_folder(path.parent, mode | (mode & 0o444) >> 2)  # who may read a file may enter its folder
    with _temporary(path, mode) as (file, temporary):
        yield file
        rename_durably(file, temporary, path)


@contextlib.contextmanager
def _temporary(path: Path, mode: int) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a new file beside a path; it is removed where the body fails."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(_open_locked(temporary, mode), "wb") as file:
            give_to_owner(file.fileno(), path.parent)
            yield file, temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_locked(temporary: Path, mode: int) -> int:
    """Open a new file whose lock, which ends with its writer, tells that it is no leftover."""
    while True:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            os.close(descriptor)
            said = f"{error.strerror} on this disk, such as a network share; use one of this machine"
            raise OSError(error.errno, said, str(temporary.parent)) from error
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # it was taken for a leftover before it was locked


def rename_durably(file: BinaryIO, temporary: Path, path: Path) -> None:
    """Give an open file that is written to its end its final name; after a power cut it is there whole, or not at all.

    ``temporary`` is its present name, on the same disk. The folder of ``path`` exists. Raises OSError.
    """
    file.flush()
    os.fsync(file.fileno())
    temporary.replace(path)
    flush_folder(path.parent)


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Make a folder, and those above it, so that they survive a power cut. Raises OSError: the disk refuses."""
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        return  # another process was faster
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        give_to_owner(descriptor, folder.parent)
    finally:
        os.close(descriptor)
    flush_folder(folder.parent)


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Fill a new folder that is there whole or not at all; what killed processes left of it is removed.

    The body gets it under another name, and flushes what it writes. Raises OSError: also where the name is taken.
    """
    for stale in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield making
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    flush_folder(folder.parent)


def leftovers(folder: Path) -> Iterator[Path]:
    """Find what killed processes left of files that they were writing; a file that is still being written is none.

    A file stays locked until the caller asks for the next one: remove it at once, or leave it.
    """
    for path in list(folder.iterdir()):
        if not _TEMPORARY.fullmatch(path.name) or not path.is_file() or path.is_symlink():
            continue
        with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_nlink and path.exists():
                yield path


def give_to_owner(descriptor: int, folder: Path) -> None:
    """Let what root has opened belong to the owner of a folder."""
    owner = folder.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def flush_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_durably(path: Path) -> None:
    """Remove a file, if it is there, so that it does not come back after a power cut."""
    if path.exists():
        path.unlink()
        flush_folder(path.parent)


def is_full(error: BaseException, folder: Path) -> bool:
    """Say whether an error means that the disk of a folder is full.

    SQLite says so of some files alone: of its log's index, which is shared memory, it says that the disk fails, and of
    a log that it cannot make, that the database cannot be opened. Then the room that is left decides.
    """
    if isinstance(error, sqlite3.OperationalError):
        said = str(error)
        return "is full" in said or (said.startswith(_PERHAPS_FULL) and not _has_room(folder))
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_read_only(folder: Path) -> bool:
    """Return whether nobody may write on a folder's disk, as on a memory card that is worn out."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _has_room(folder: Path) -> bool:
    """Say whether SQLite finds room to open a database: bytes, and files where the disk counts them."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize >= _TO_OPEN_BYTES and (room.f_favail > 0 or not room.f_files)
