"""A backup's archive: written, and read from wherever it comes, looked at as a whole before a byte is unpacked.

It is a tar file of plain files, with a manifest of their digests. What it holds is what a program wrote into it: no
links, no holes, no names that lead elsewhere, nothing twice, and no more than the disk has room for.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from fleet_protocol.bounded_json import JsonBounds, parse_json
from fleet_protocol.errors import BackupFormatError, JsonError
from fleet_protocol.ground.atomic_files import written_durably

DIGESTS = "digests.json"  # name of the manifest
MANIFEST = JsonBounds(size=2**24, values=2**18, depth=4)
_PIECE_BYTES = 2**20  # read at once, of a file or of a header
_FILE_BYTES = 4_096  # that a file takes on a disk, besides its bytes
_NAME_BYTES = 255  # of each part
# A file below a folder, in the one way in which it can be written: at most 8 parts, none "." or "..", no control signs.
_PART = r"(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
_NAME = re.compile(rf"{_PART}(?:/{_PART}){{0,7}}")


class _Digested:
    """A file that is digested while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        self.digest.update(data)
        return data


class BackupWriter:
    """Writes the files of a backup; :func:`written_backup` makes it."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self.digests: dict[str, str] = {}  # SHA-256 of each file, 64 hex digits, by its name

    def add(self, name: str, file: BinaryIO, size: int) -> str:
        """Add the next ``size`` bytes of a file; return their SHA-256. Raises BackupFormatError: it has fewer."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = size, 0o600, int(time.time())
        digested = _Digested(file)
        try:
            self._archive.addfile(entry, digested)
        except tarfile.TarError as error:
            raise BackupFormatError(f"{name!r} ends early") from error
        self.digests[name] = digested.digest.hexdigest()
        return self.digests[name]


@contextlib.contextmanager
def written_backup(file: Path) -> Iterator[BackupWriter]:
    """Make a backup of what the body adds, which only its owner can read; where the body fails, nothing changes."""
    with written_durably(file) as raw, tarfile.open(fileobj=raw, mode="w") as archive:
        writer = BackupWriter(archive)
        yield writer
        document = json.dumps(writer.digests).encode()
        writer.add(DIGESTS, io.BytesIO(document), len(document))


class BackupArchive:
    """The files of a backup; :func:`open_backup` makes it."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._members = _members(archive)
        found = self._members.pop(DIGESTS, None)
        if found is None:
            raise BackupFormatError(f"it has no {DIGESTS}")
        if found.size > MANIFEST.size:
            raise BackupFormatError(f"{DIGESTS} has {found.size} bytes; at most {MANIFEST.size} are read")
        self.digests: Any = parse_json(self._open(found).read(), MANIFEST, DIGESTS)
        self.names = frozenset(self._members)  # of the other files, as paths relative to the folder that was backed up

    def unpack(self, folder: Path) -> None:
        """Write all files but the manifest durably into a folder, and compare each with its digest.

        The folder holds none of them; where this fails, the caller removes it. Raises BackupFormatError: files are
        missing, unknown or damaged, or the disk has no room for them.
        """
        for name in sorted(self.names ^ self.digests.keys()):
            raise BackupFormatError(f"{name!r} is {'missing' if name in self.digests else 'not in its manifest'}")
        needed = sum(member.size + _FILE_BYTES for member in self._members.values())
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise BackupFormatError(f"it takes {needed / 1e6:.1f} MB, and {free / 1e6:.1f} MB are free in {folder}")
        for name, member in self._members.items():
            digested = _Digested(self._open(member))
            with written_durably(folder / name) as target:
                shutil.copyfileobj(digested, target, _PIECE_BYTES)
            if digested.digest.hexdigest() != self.digests[name]:
                raise BackupFormatError(f"{name!r} is not what was backed up")

    def _open(self, member: tarfile.TarInfo) -> IO[bytes]:
        file = self._archive.extractfile(member)
        assert file is not None  # all are plain files
        return file


@contextlib.contextmanager
def open_backup(file: Path) -> Iterator[BackupArchive]:
    """Open a backup, uncompressed, and look at what it holds.

    Raises OSError; BackupFormatError, also in the body: it is no backup, or holds what no program wrote into one.
    """
    try:
        with (
            file.open("rb") as raw,
            tarfile.open(fileobj=_InPieces(raw), mode="r:") as archive,  # type: ignore[call-overload]  # it only reads
        ):
            yield BackupArchive(archive)
    except (tarfile.TarError, JsonError, ValueError, EOFError, OverflowError, RecursionError) as error:
        raise BackupFormatError(str(error) or type(error).__name__) from error


class _InPieces:
    """A file of which nobody reads much at once: a header may say that it is as long as the memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        self.seek(0)

    def tell(self) -> int:
        """Return where the next bytes are."""
        return self._file.tell()

    def seek(self, position: int) -> int:
        """Go to a place."""
        if not 0 <= position <= self._size:
            raise tarfile.ReadError("it ends early")
        return self._file.seek(position)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= _PIECE_BYTES:
            raise tarfile.ReadError(f"it has a header of {size} bytes")
        return self._file.read(size)


def _members(archive: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """Return the files of an archive by their names; nothing but headers is read."""
    members: dict[str, tarfile.TarInfo] = {}
    folders: set[str] = set()
    for member in archive:
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse() or member.size < 0:
            raise BackupFormatError(f"{member.name[:200]!r} is no plain file")
        parts = member.name.split("/")
        if _NAME.fullmatch(member.name) is None or any(len(part.encode()) > _NAME_BYTES for part in parts):
            raise BackupFormatError(f"{member.name[:200]!r} is no name of a file within it")
        if member.name in members:
            raise BackupFormatError(f"{member.name!r} is in it twice")
        members[member.name] = member
        folders.update(path.as_posix() for path in PurePosixPath(member.name).parents)
    for name in sorted(folders & members.keys()):
        raise BackupFormatError(f"{name!r} is both a file and a folder")
    return members
