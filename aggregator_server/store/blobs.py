"""Blobs: bytes named by their SHA-256, stored whole and durably; in a folder, or in an object store (objects.py).

What comes in is written to a temporary file first. A blob gets its name only when it is whole and durable
(fleet_protocol/ground/atomic_files.py). A kill or a power cut leaves at most a temporary file, which the next start
removes.
"""

import contextlib
import hashlib
import mmap
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from aggregator_server import limits
from aggregator_server.errors import BlobError, RefusedError
from fleet_protocol.ground.atomic_files import flush_folder, make_folder, rename_durably, write_durably

IDENTITY = "fleet.id"  # name of the note beside the blobs which says whose they are
_PIECE = 1 << 20


class Incoming:
    """A blob that is being received: its bytes are written, checked, and then kept or dropped."""

    def __init__(self, blobs: "BlobStore", file: BinaryIO, path: Path, *, is_bounded: bool) -> None:
        """Make one without bytes; what a bounded one takes counts towards the room that uploads have together."""
        self._blobs, self._file, self._path = blobs, file, path
        self._is_bounded, self._taken = is_bounded, 0
        self._hash = hashlib.sha256()
        self._whole = self._replaced = False
        self.size = 0

    @property
    def sha256(self) -> str:
        """Digest of what was written so far, 64 hex digits."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes) -> None:
        """Append bytes. Raises RefusedError: the same owner began anew meanwhile, or what comes in has no more room."""
        if self._replaced:
            raise RefusedError("upload_replaced", "the upload was begun anew on another connection; that one counts")
        if self._is_bounded:
            self._blobs.take_room(len(chunk))
            self._taken += len(chunk)
        self._file.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    def finish(self) -> None:
        """Note that all bytes were written: from now on the file stays as it is."""
        self._whole = True

    def abandon(self) -> None:
        """Free the disk for an upload that the same owner began anew, unless this one is whole."""
        if not self._whole:
            self._replaced = True
            self._file.seek(0)
            self._file.truncate()
            self.release_room()

    def release_room(self) -> None:
        """Give back the room that the bytes took."""
        self._blobs.take_room(-self._taken)
        self._taken = 0

    def content(self) -> memoryview:
        """Return everything that was written, read-only; it stays on disk and is not read into memory."""
        self._file.flush()
        if not self.size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ))

    def keep(self) -> str:
        """Store the blob durably, the same content once, and return its digest. Raises OSError: the disk refuses."""
        self._blobs.keep(self._file, self._path, self.sha256)
        return self.sha256


@dataclass(frozen=True)
class Entry:
    """A blob that is stored: its digest, when it was stored last, in seconds since 1970, and its bytes."""

    sha256: str
    stored_at: float
    size: int


class BlobStore(ABC):
    """Where blobs are. Copies that are pickled for other processes read and store the same ones.

    ``folder``: of this machine; bytes that come in are received there, in ``incoming/``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._incoming = folder / "incoming"
        self._receiving: dict[str, Incoming] = {}
        self._taken = 0  # of the room for uploads that come in

    def take_room(self, count: int) -> None:
        """Take room for bytes that have arrived, or give some back. Raises RefusedError: there is none."""
        if count > 0 and self._taken + count > limits.INCOMING_BYTES:
            raise RefusedError(
                "busy",
                f"the uploads that are coming in have {self._taken} bytes; all together may have "
                f"{limits.INCOMING_BYTES}. Send it again later",
            )
        self._taken += count

    def remove_leftovers(self, older_than_s: float = 0.0) -> None:
        """Remove what an earlier process left in ``incoming/``: all, or what is so old that nobody receives it."""
        for leftover in self._incoming.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another server was faster
                if not older_than_s or leftover.stat().st_mtime < time.time() - older_than_s:
                    leftover.unlink()

    @contextmanager
    def receive(self, owner: str | None = None) -> Iterator[Incoming]:
        """Open a temporary file for bytes that come in; it is gone at the end unless it was kept.

        ``owner``: whose earlier file, if it is not whole yet, makes room; None: nobody's. Those that have one share a
        room; the thread of the event loop alone may write them.
        """
        handle, name = tempfile.mkstemp(dir=self._incoming)
        path = Path(name)
        try:
            with os.fdopen(handle, "w+b") as file:
                incoming = Incoming(self, file, path, is_bounded=owner is not None)
                if owner is not None:
                    if owner in self._receiving:
                        self._receiving[owner].abandon()
                    self._receiving[owner] = incoming
                try:
                    yield incoming
                finally:
                    incoming.release_room()
                    if owner is not None and self._receiving[owner] is incoming:
                        del self._receiving[owner]
        finally:
            path.unlink(missing_ok=True)

    def put(self, data: bytes) -> str:
        """Store bytes durably and return their digest."""
        with self.receive() as incoming:
            incoming.write(data)
            return incoming.keep()

    def read(self, sha256: str) -> bytes:
        """Return a blob's bytes. Raises BlobError: it is missing or damaged. StateAwayError: the store is away."""
        data = self._read(sha256)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BlobError(f"blob {self.shown(sha256)} is damaged (its digest differs); restore it from a backup")
        return data

    def is_whole(self, sha256: str) -> bool:
        """Say whether a blob is there, with the content that its name says; it is read piece by piece."""
        digest = hashlib.sha256()
        try:
            with self.open(sha256) as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
        except BlobError:
            return False
        return digest.hexdigest() == sha256

    def digests(self) -> Iterator[str]:
        """Yield the digest of every blob."""
        return (entry.sha256 for entry in self.entries())

    def is_empty(self) -> bool:
        """Say whether there is no blob."""
        return next(self.entries(), None) is None

    def _missing(self, sha256: str) -> BlobError:
        return BlobError(f"blob {sha256} is missing from {self.shown()}; restore it from a backup")

    @abstractmethod
    def keep(self, file: BinaryIO, path: Path, sha256: str) -> None:
        """Store what was received, durably; the same content twice is one blob."""

    @abstractmethod
    def _read(self, sha256: str) -> bytes:
        """Return a blob's bytes, unchecked. Raises BlobError: it is missing."""

    @abstractmethod
    def open(self, sha256: str) -> BinaryIO:
        """Open a blob to read a part of it, unchecked; it can be sought in. Raises BlobError: it is missing."""

    @abstractmethod
    def exists(self, sha256: str) -> bool:
        """Say whether a blob is there."""

    @abstractmethod
    def remove(self, sha256: str) -> None:
        """Remove a blob that no row needs any more; one that is gone is no error. A power cut may bring it back."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Yield every blob, in the order of the digests."""

    @abstractmethod
    def identity(self) -> str | None:
        """Return what :meth:`note_identity` noted; None where nothing was."""

    @abstractmethod
    def note_identity(self, text: str) -> None:
        """Note which fleet the blobs belong to, unless something is noted."""

    @abstractmethod
    def shown(self, sha256: str = "") -> str:
        """Return where a blob is, for people; without one, where all are."""


class BlobFolder(BlobStore):
    """A folder of blobs: ``ab/abcd...`` by digest, ``incoming/`` for those that are being received, ``fleet.id``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if not self._incoming.exists():
            self._make_folders()

    def __reduce__(self) -> tuple[type["BlobFolder"], tuple[Path]]:
        """Pickle where it is."""
        return BlobFolder, (self.folder,)

    def _make_folders(self) -> None:
        """Make the folders of all digests at once: each needs a flush of its own when it comes with its first blob."""
        for number in range(256):
            (self.folder / f"{number:02x}").mkdir(parents=True, exist_ok=True)
        flush_folder(self.folder)
        self._incoming.mkdir(exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Return the path of a blob. The database says whether it exists."""
        return self.folder / sha256[:2] / sha256

    def shown(self, sha256: str = "") -> str:  # noqa: D102
        return str(self.path(sha256) if sha256 else self.folder)

    def exists(self, sha256: str) -> bool:  # noqa: D102
        return self.path(sha256).is_file()

    def open(self, sha256: str) -> BinaryIO:  # noqa: D102
        try:
            return self.path(sha256).open("rb")
        except FileNotFoundError as error:
            raise self._missing(sha256) from error

    def _read(self, sha256: str) -> bytes:
        with self.open(sha256) as file:
            return file.read()

    def keep(self, file: BinaryIO, path: Path, sha256: str) -> None:  # noqa: D102
        target = self.path(sha256)
        make_folder(target.parent, 0o777)
        rename_durably(file, path, target)

    def remove(self, sha256: str) -> None:  # noqa: D102
        self.path(sha256).unlink(missing_ok=True)

    def identity(self) -> str | None:  # noqa: D102
        path = self.folder / IDENTITY
        return path.read_text("ascii", "replace") if path.exists() else None

    def note_identity(self, text: str) -> None:  # noqa: D102
        write_durably(self.folder / IDENTITY, text.encode())

    def entries(self) -> Iterator[Entry]:  # noqa: D102
        for folder in sorted(self.folder.iterdir()):
            if folder != self._incoming and folder.is_dir():
                for path in sorted(folder.iterdir()):
                    with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                        found = path.stat()
                        yield Entry(path.name, found.st_mtime, found.st_size)
