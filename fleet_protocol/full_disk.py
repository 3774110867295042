"""Whether an error means that a disk is full."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

_PERHAPS_FULL = ("disk I/O error", "unable to open database file")
_TO_OPEN_BYTES = 2**20  # a database's log, its index and a journal take a tenth of it


def is_full(error: BaseException, folder: Path) -> bool:
    """Say whether an error means that the disk of a folder is full.

    SQLite says so of some files alone: of its log's index, which is shared memory, it says that the disk fails, and of
    a log that it cannot make, that the database cannot be opened. Then the room that is left decides.
    """
    if isinstance(error, sqlite3.OperationalError):
        said = str(error)
        return "is full" in said or (said.startswith(_PERHAPS_FULL) and not _has_room(folder))
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _has_room(folder: Path) -> bool:
    """Say whether SQLite finds room to open a database: bytes, and files where the disk counts them."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize >= _TO_OPEN_BYTES and (room.f_favail > 0 or not room.f_files)
