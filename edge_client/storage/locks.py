"""Locks between processes (flock), which the kernel frees when their holder ends, and places for what lives as long.

What the daemon writes again and again lies under systemd in the runtime folder, which is memory: an SD card is worn out
by writing. The state folder then holds a link, so that whoever knows the configuration finds it.
"""

import errno
import fcntl
import os
import time
from pathlib import Path

from edge_client.errors import StateError
from fleet_protocol.atomic_files import give_to_owner, make_folder

_POLL_S = 0.05
# What systems say whose disks know no locks, as NFS without a lock daemon and some of FUSE.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


def take_lock(path: Path, patience_s: float = 0.0) -> int | None:
    """Lock a file, which is made where it is missing, and return its descriptor, with which it is freed again.

    Returns None where another holder kept the lock for ``patience_s``. Raises OSError if it cannot be opened,
    StateError if its disk knows no locks.
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
        except OSError as error:
            os.close(descriptor)
            if error.errno in _NO_LOCKS:
                raise on_a_share(path, "locks", error) from error
            raise


def on_a_share(path: Path, lacks: str, error: Exception) -> StateError:
    """Return how to say that a disk lacks what several programs need to use a file together."""
    return StateError(
        f"{path.parent} is on a disk without {lacks}, such as some network shares ({error}); move the device's state "
        "to a disk of this machine, and say so by [device] state"
    )


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the lock on a file at this moment."""
    descriptor = take_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def runtime_path(folder: Path, name: str) -> Path:
    """Return where a file belongs; if elsewhere, the state folder links to it. Raises OSError if it cannot."""
    link = folder / name
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    path = Path(runtime) / name if runtime else link
    if runtime or link.is_symlink():
        link.unlink(missing_ok=True)
    if runtime:
        link.symlink_to(path)
    return path


def in_memory() -> bool:
    """Return whether those places are memory."""
    return bool(os.environ.get("RUNTIME_DIRECTORY"))
