"""Locks between processes (flock): the kernel frees them when their holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from fleet_protocol.atomic_files import give_to_owner, make_folder

_POLL_S = 0.05


def take_lock(path: Path, patience_s: float = 0.0) -> int | None:
    """Lock a file, which is made where it is missing; closing the descriptor returned frees it again.

    Args:
        path: the file, one for each purpose.
        patience_s: how long to wait for another holder, in seconds.

    Returns:
        The open file's descriptor; None where another holder kept the lock.

    Raises:
        OSError: the file cannot be opened or made.
    """
    make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_to_owner(descriptor, path.parent)
    give_up = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= give_up:
                os.close(descriptor)
                return None
            time.sleep(_POLL_S)


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the lock on a file at this moment."""
    descriptor = take_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
