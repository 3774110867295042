"""Whether tables and blobs belong together: a number that the database has, and a note of it beside the blobs.

A database that was emptied, lost or replaced would otherwise start a new fleet in silence, beside the blobs of the old.
"""

import secrets
from abc import ABC, abstractmethod
from pathlib import Path

from aggregator_server.errors import StartError
from aggregator_server.store.objects import ObjectBlobs
from fleet_protocol.atomic_files import write_durably

_LARGEST = 2**31  # SQLite keeps the number as a signed 32-bit integer; 0 stands for none


class Identity(ABC):
    """The number that is noted beside the blobs.

    Attributes:
        noted: The number; None where none is noted.
        has_blobs: Whether there are blobs.
    """

    noted: int | None
    has_blobs: bool

    def require(self, found: int, database: str, *, empty: bool) -> int:
        """Check that a database is the blobs' own; return its number, a new one where it has none.

        Args:
            found: number of the database; 0: it has none.
            database: where it is, for people.
            empty: whether it was without tables.

        Raises:
            StartError: it is not; names the way out.
        """
        if empty and (self.noted is not None or self.has_blobs):
            raise StartError(self._of_nobody(database))
        if self.noted is not None and found != self.noted:
            raise StartError(self._foreign(database, found))
        return found or 1 + secrets.randbelow(_LARGEST - 1)

    @abstractmethod
    def note(self, number: int) -> None:
        """Note the number of the database, once that is durable."""

    @abstractmethod
    def _of_nobody(self, database: str) -> str:
        """Return what to say of an empty database beside blobs."""

    @abstractmethod
    def _foreign(self, database: str, found: int) -> str:
        """Return what to say of another fleet's database."""


class FolderIdentity(Identity):
    """The number of blobs in a folder, in a file ``fleet.id``."""

    def __init__(self, folder: Path, blobs: Path) -> None:
        """Read the number.

        Args:
            folder: where the file is.
            blobs: folder of the blobs.

        Raises:
            StartError: the file is no number.
        """
        self._path = folder / "fleet.id"
        self._folder, self._blobs = folder, blobs
        self.has_blobs = any(blobs.glob("??/*"))
        try:
            self.noted = int(self._path.read_text()) if self._path.exists() else None
        except ValueError as error:
            raise StartError(
                f"{self._path} is damaged ({error}); remove it if the database is this folder's"
            ) from error

    def note(self, number: int) -> None:  # noqa: D102
        if self.noted is None:
            write_durably(self._path, f"{number}\n".encode())
            self.noted = number

    def _of_nobody(self, database: str) -> str:
        return (
            f"data folder {self._folder} belongs to a fleet, but its database {database} is missing or empty; restore "
            f"it from a backup. To start a new fleet, choose another folder, or move {self._blobs} and "
            f"{self._path} away"
        )

    def _foreign(self, database: str, found: int) -> str:
        return (
            f"{database} is the database of another fleet (number {found}, the folder's is {self.noted}); put this "
            f"folder's own back from a backup. If it is meant to be this one, remove {self._path}"
        )


class ObjectIdentity(Identity):
    """The number of blobs in an object store, in its object ``fleet.id``."""

    def __init__(self, blobs: ObjectBlobs) -> None:
        """Read the number.

        Raises:
            StartError: it is none.
            StateAwayError: the store does not answer.
        """
        self._store = blobs
        text = blobs.identity()
        try:
            self.noted = None if text is None else int(text)
        except ValueError:
            raise StartError(
                f"fleet.id in {blobs.shown()} is damaged; remove it if the database is this store's"
            ) from None
        self.has_blobs = self.noted is None and not blobs.is_empty()

    def note(self, number: int) -> None:  # noqa: D102
        if self.noted is None:
            self._store.note_identity(f"{number}\n")
            text = self._store.identity()
            if text is None or text.strip() != str(number):  # another server of another fleet was faster
                raise StartError(f"{self._store.shown()} belongs to another fleet; choose another prefix")
            self.noted = number

    def _of_nobody(self, database: str) -> str:
        return (
            f"the store {self._store.shown()} belongs to a fleet, but the database {database} is empty; restore it "
            "from a backup. To start a new fleet, choose another bucket or prefix"
        )

    def _foreign(self, database: str, found: int) -> str:
        return (
            f"{database} is the database of another fleet (number {found}, that of the store {self._store.shown()} is "
            f"{self.noted}); name the store and the database that belong together"
        )
