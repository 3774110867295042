"""Whether a data folder's database is its own: a number in the database's header and in a file beside it agree.

A database that was emptied, lost or replaced would otherwise start a new fleet in silence, beside the blobs of the old.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from sqlalchemy import Connection

from aggregator_server.errors import StartError
from fleet_protocol.atomic_files import write_durably

_LARGEST = 2**31  # SQLite keeps the number as a signed 32-bit integer; 0 stands for none


class FolderIdentity:
    """The number of a data folder, in its file ``fleet.id``."""

    def __init__(self, folder: Path, *, has_blobs: bool) -> None:
        """Read the number.

        Args:
            folder: the data folder.
            has_blobs: whether it holds blobs.

        Raises:
            StartError: the file is no number.
        """
        self._path = folder / "fleet.id"
        self._has_blobs = has_blobs
        try:
            self._noted = int(self._path.read_text()) if self._path.exists() else None
        except ValueError as error:
            raise StartError(
                f"{self._path} is damaged ({error}); remove it if the database is this folder's"
            ) from error

    def require(self, connection: Connection, path: Path, *, empty: bool) -> None:
        """Check that a database is the folder's, and give it a number where it has none.

        Args:
            connection: to the database, in the transaction that prepares it.
            path: of the database.
            empty: whether it was without tables.

        Raises:
            StartError: it is not; names the way out.
        """
        found = int(connection.exec_driver_sql("PRAGMA application_id").scalar_one())
        folder = path.parent
        if empty and (self._noted is not None or self._has_blobs):
            raise StartError(
                f"data folder {folder} belongs to a fleet, but its database {path.name} is missing or empty; restore "
                f"it from a backup. To start a new fleet, choose another folder, or move {folder / 'blobs'} and "
                f"{self._path} away"
            )
        if self._noted is not None and found != self._noted:
            raise StartError(
                f"{path} is the database of another fleet (number {found}, the folder's is {self._noted}); put this "
                f"folder's own back from a backup. If it is meant to be this one, remove {self._path}"
            )
        if not found:
            found = 1 + secrets.randbelow(_LARGEST - 1)
            connection.exec_driver_sql(f"PRAGMA application_id = {found}")
        self._found = found

    def note(self) -> None:
        """Write the number beside the database, once that is on the disk."""
        if self._noted is None:
            write_durably(self._path, f"{self._found}\n".encode())
