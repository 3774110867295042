"""The newest copies of a data folder in a folder of their own, within a bound on their number and on the disk."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from aggregator_server.errors import BackupError
from aggregator_server.limits import LEAST_FREE_SHARE
from aggregator_server.store import open_blobs
from aggregator_server.store.free_space import free_space
from aggregator_server.store.location import Location, locate
from aggregator_server.upkeep.backup import back_up, require_folder
from fleet_protocol.atomic_files import flush_folder, make_folder

_COPY = re.compile(r"auricle-\d{8}T\d{6}Z\.tar")


def back_up_into(place: Path | Location, copies: Path, keep: int, now: float) -> tuple[Path, list[str]]:
    """Copy the state of a fleet into a file named by the time, then remove all but the newest copies.

    Nothing is removed before the new copy is whole, so the disk needs room for one more than are kept. Files of other
    names stay.

    Args:
        place: where the state is; a server may run on it.
        copies: folder of the copies, made where it does not exist.
        keep: how many copies stay, at least 1.

    Returns:
        The file, and what was left out of it, as :func:`back_up` says it.

    Raises:
        BackupError: there is no data folder, the disk has too little space, or another backup into the folder runs.
        OSError: the disk refuses.
    """
    if keep < 1:
        raise BackupError(f"--keep must be at least 1, not {keep}")
    require_folder(place)
    if copies.is_file():
        raise BackupError(f"{copies} is a file; with --keep, name a folder for the copies")
    make_folder(copies)
    with _alone(copies):
        for leftover in copies.glob(".auricle-*.tar.*"):  # of a backup that was killed
            leftover.unlink()
        _require_room(locate(place), copies)
        made = copies / f"auricle-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}.tar"
        left_out = back_up(place, made)
        # By their names. A clock that was set back makes the new copy the first; it stays all the same.
        others = sorted(path for path in copies.iterdir() if _COPY.fullmatch(path.name) and path != made)
        for old in others[: len(others) - keep + 1]:
            old.unlink()
        flush_folder(copies)
    return made, left_out


@contextmanager
def _alone(copies: Path) -> Iterator[None]:
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
    needed = sum(_size(path) for path in location.data.rglob("*"))
    if location.store is not None:
        needed += sum(entry.size for entry in open_blobs(location).entries())
    room = free_space(copies)
    if room.free - needed < LEAST_FREE_SHARE * room.total:
        raise BackupError(
            f"{copies} has too little space for another copy: {room.free / 1e6:.0f} MB are free, the copy takes up to "
            f"{needed / 1e6:.0f} MB, and {LEAST_FREE_SHARE:.0%} of the disk stay free; keep fewer copies (--keep), or "
            "have them on another disk"
        )


def _size(path: Path) -> int:
    """Return a file's size in bytes; 0 of a folder, and of a file that a running server removed meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
