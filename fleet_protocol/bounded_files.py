"""Files that somebody names: a pipe would be waited for, a device such as /dev/zero read for ever."""

import stat
from pathlib import Path


def require_regular(path: Path, most_bytes: int) -> None:
    """Look at a file before it is opened. Raises OSError: it is not there, is no regular file, or has more bytes."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is no regular file")
    if found.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file, which may be a pipe. Raises OSError: it cannot be read, or has more bytes."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise _too_large(path, most_bytes)
    return data


def _too_large(path: Path, most_bytes: int) -> OSError:
    return OSError(f"{path} has more than {most_bytes} bytes, the most that are read")
