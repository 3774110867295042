"""Locks between processes (flock), which the kernel frees when their holder ends, and places for what lives as long.

What the daemon writes again and again lies under systemd in the runtime folder, which is memory: an SD card is worn out
by writing. The state folder then holds a link, so that whoever knows the configuration finds it.
"""

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from edge_client.errors import StateError
from fleet_protocol.ground.atomic_files import give_to_owner, make_folder

_POLL_S = 0.05
# What systems say whose disks know no locks, as NFS without a lock daemon and some of FUSE.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


def take_lock(path: Path, patience_s: float = 0.0) -> int | None:
    """Lock a file, which is made where it is missing, and return its descriptor, with which it is freed again.

    Returns None where another holder kept the lock for ``patience_s``. Raises OSError if it cannot be opened,
    StateError if its disk knows no locks.
    """
    descriptor = _open(path)
    give_up = time.monotonic() + patience_s
    try:
        while not _flock(descriptor, fcntl.LOCK_EX, path):
            if time.monotonic() >= give_up:
                os.close(descriptor)
                return None
            time.sleep(_POLL_S)
    except (OSError, StateError):
        os.close(descriptor)
        raise
    return descriptor


def _open(path: Path) -> int:
    try:
        make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.EROFS:  # one that is there can be locked all the same
            with suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise
    give_to_owner(descriptor, path.parent)
    return descriptor


def _flock(descriptor: int, kind: int, path: Path) -> bool:
    """Lock an open file, or return that another holder keeps it. Raises OSError, StateError as :func:`take_lock`."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise on_a_share(path, "locks", error) from error
        raise
    return True


def on_a_share(path: Path, lacks: str, error: Exception) -> StateError:
    """Return how to say that a disk lacks what several programs need to use a file together."""
    return StateError(
        f"{path.parent} is on a disk without {lacks}, such as some network shares ({error}); move the device's state "
        "to a disk of this machine, and say so by [device] state"
    )


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the lock on a file at this moment. Nothing is written: the disk may refuse it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _flock(descriptor, fcntl.LOCK_SH, path)
    finally:
        os.close(descriptor)


def runtime_path(folder: Path, name: str) -> Path:
    """Return where a file belongs; if elsewhere, the state folder links to it. Raises OSError if it cannot."""
    link = folder / name
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    path = Path(runtime) / name if runtime else link
    if link.is_symlink() and runtime and link.readlink() == path:
        return path
    if runtime or link.is_symlink():
        link.unlink(missing_ok=True)
    if runtime:
        link.symlink_to(path)
    return path


def in_memory() -> bool:
    """Return whether those places are memory."""
    return bool(os.environ.get("RUNTIME_DIRECTORY"))
