"""Blobs: files named by the SHA-256 of their content, written atomically and durably.

A file gets its name only when it is whole and on the disk (fleet_protocol/atomic_files.py). A kill or a power cut
leaves at most a temporary file, which the next start removes.
"""

import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from aggregator_server import limits
from aggregator_server.errors import BlobError, BusyError, UploadReplacedError
from fleet_protocol.atomic_files import flush_folder, make_folder, rename_durably


class Room:
    """The room that uploads have together while they come in."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, count: int) -> None:
        """Take room for bytes that have arrived. Raises BusyError: there is none."""
        if self._taken + count > limits.INCOMING_BYTES:
            raise BusyError(
                f"the uploads that are coming in have {self._taken} bytes; all together may have "
                f"{limits.INCOMING_BYTES}. Send it again later"
            )
        self._taken += count

    def release(self, count: int) -> None:
        """Give back the room of bytes that are gone, or have their place."""
        self._taken -= count


class Incoming:
    """A blob that is being received: its bytes are written, checked, and then kept or dropped."""

    def __init__(self, file: BinaryIO, path: Path, folder: Path, room: Room | None = None) -> None:
        self._room = room
        self._taken = 0  # of that room
        self._file = file
        self._path = path
        self._folder = folder
        self._hash = hashlib.sha256()
        self._whole = self._replaced = False
        self.size = 0

    @property
    def sha256(self) -> str:
        """Digest of what was written so far, 64 hex digits."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes) -> None:
        """Append bytes.

        Raises:
            UploadReplacedError: the same owner began anew meanwhile.
            BusyError: what comes in has no more room.
        """
        if self._replaced:
            raise UploadReplacedError("the upload was begun anew on another connection; that one counts")
        if self._room is not None:
            self._room.take(len(chunk))
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
        if self._room is not None:
            self._room.release(self._taken)
            self._taken = 0

    def content(self) -> memoryview:
        """Return everything that was written, read-only; it stays on disk and is not read into memory."""
        self._file.flush()
        if not self.size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ))

    def keep(self) -> str:
        """Give the blob its name, durably, and return its digest; the same content twice is one file."""
        target = _place(self._folder, self.sha256)
        make_folder(target.parent, 0o777)
        rename_durably(self._file, self._path, target)
        return self.sha256


class BlobFolder:
    """A folder of blobs: ``ab/abcd...`` by digest, ``incoming/`` for those that are being received."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._incoming = folder / "incoming"
        if not self._incoming.exists():
            self._make_folders()
        self._receiving: dict[str, Incoming] = {}
        self._room = Room()

    def _make_folders(self) -> None:
        """Make the folders of all digests at once: each needs a flush of its own when it comes with its first blob."""
        for number in range(256):
            (self.folder / f"{number:02x}").mkdir(parents=True, exist_ok=True)
        flush_folder(self.folder)
        self._incoming.mkdir(exist_ok=True)

    def remove_leftovers(self) -> None:
        """Remove what an earlier process left in ``incoming/``; only whoever has the data folder alone may."""
        for leftover in self._incoming.iterdir():
            leftover.unlink()

    @contextmanager
    def receive(self, owner: str | None = None) -> Iterator[Incoming]:
        """Open a temporary file for bytes that come in; it is gone at the end unless it was kept.

        Args:
            owner: whose earlier file, if it is not whole yet, makes room; None: nobody's. Those that have one share a
                room; the thread of the event loop alone may write them.
        """
        handle, name = tempfile.mkstemp(dir=self._incoming)
        path = Path(name)
        try:
            with (
                os.fdopen(handle, "w+b") as file,
                self._only_one(owner, Incoming(file, path, self.folder, self._room if owner else None)) as incoming,
            ):
                yield incoming
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def _only_one(self, owner: str | None, incoming: Incoming) -> Iterator[Incoming]:
        if owner is None:
            yield incoming
            return
        former = self._receiving.get(owner)
        if former is not None:
            former.abandon()
        self._receiving[owner] = incoming
        try:
            yield incoming
        finally:
            incoming.release_room()
            if self._receiving[owner] is incoming:
                del self._receiving[owner]

    def put(self, data: bytes) -> str:
        """Store bytes durably and return their digest."""
        with self.receive() as incoming:
            incoming.write(data)
            return incoming.keep()

    def path(self, sha256: str) -> Path:
        """Return the path of a blob. The database says whether it exists."""
        return _place(self.folder, sha256)

    def size(self, sha256: str) -> int:
        """Return a blob's bytes; 0 where it is gone."""
        path = self.path(sha256)
        return path.stat().st_size if path.exists() else 0

    def open(self, sha256: str) -> BinaryIO:
        """Open a blob to read a part of it, unchecked. Raises BlobError: it is missing."""
        try:
            return self.path(sha256).open("rb")
        except FileNotFoundError as error:
            raise BlobError(f"blob {sha256} is missing from {self.folder}; restore it from a backup") from error

    def read(self, sha256: str) -> bytes:
        """Return a blob's bytes. Raises BlobError: it is missing, or its content is not what its name says."""
        with self.open(sha256) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BlobError(f"blob {self.path(sha256)} is damaged (its digest differs); restore it from a backup")
        return data

    def remove(self, sha256: str) -> None:
        """Remove a blob that no row of the database needs any more; one that is gone already is no error.

        A power cut may bring it back.
        """
        self.path(sha256).unlink(missing_ok=True)

    def digests(self) -> Iterator[str]:
        """Yield the digest of every blob on disk."""
        for folder in sorted(self.folder.iterdir()):
            if folder != self._incoming and folder.is_dir():
                yield from (path.name for path in sorted(folder.iterdir()))


def _place(folder: Path, sha256: str) -> Path:
    return folder / sha256[:2] / sha256
