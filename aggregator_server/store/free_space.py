"""How much room the disk of a data folder has, and the refusal of more before there is none."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import OperationalError

from aggregator_server.errors import RefusedError, StartError
from aggregator_server.limits import LEAST_FREE_BYTES, LEAST_FREE_SHARE
from fleet_protocol.ground import atomic_files


@dataclass(frozen=True)
class FreeSpace:
    """Room on a disk, in bytes: what is free for this user, and all of it."""

    free: int
    total: int

    @property
    def kept(self) -> float:
        """How much of it uploads leave free, in bytes."""
        return min(LEAST_FREE_SHARE * self.total, LEAST_FREE_BYTES)

    @property
    def enough(self) -> bool:
        """Whether the server still takes in uploads."""
        return self.free >= self.kept


def free_space(folder: Path) -> FreeSpace:
    """Return the room on the disk of a folder. Raises OSError: it cannot be read."""
    usage = shutil.disk_usage(folder)
    return FreeSpace(usage.free, usage.free + usage.used)


def size_of(path: Path) -> int:
    """Return a file's size in bytes; 0 of a folder, and of a file that a running server removed meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


def require_room(folder: Path) -> None:
    """Refuse to take in more while the disk is nearly full: closing a round needs room too. Raises RefusedError."""
    room = free_space(folder)
    if not room.enough:
        raise RefusedError(
            "storage_full",
            f"the server's disk is nearly full: {room.free / 1e6:.0f} of {room.total / 1e6:.0f} MB are free in {folder}"
            f", and the last {room.kept / 1e6:.0f} MB are kept for closing rounds; its operator must free space",
        )


def is_full(error: BaseException, folder: Path) -> bool:
    """Say whether an error, SQLAlchemy's included, means that the disk of a folder is full."""
    cause = error.orig if isinstance(error, OperationalError) else error
    return cause is not None and atomic_files.is_full(cause, folder)


def full(folder: Path) -> StartError:
    """Return the error of a start on a full disk."""
    return StartError(f"the disk of data folder {folder} is full; free space there and start again. Nothing is damaged")
