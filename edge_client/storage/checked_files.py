"""Files that show their own damage: the content, then a line with its SHA-256 digest.

A worn memory card flips bits without reporting an error. A file that the device could not get again is written twice,
so that the copy takes its place (docs/device.md, "Damage is noticed").
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from edge_client.errors import DamagedError
from fleet_protocol.atomic_files import remove_durably, write_durably
from fleet_protocol.tensors import digest

_LINE = re.compile(rb"\n#sha256 ([0-9a-f]{64})\n")
_LINE_BYTES = len(b"\n#sha256 ") + 64 + 1


def write_checked(path: Path, data: bytes) -> None:
    """Replace a file's content durably, with its digest behind it.

    Raises:
        OSError: the disk refuses.
    """
    write_durably(path, data + b"\n#sha256 " + digest(data).encode() + b"\n")


def read_checked(path: Path) -> bytes:
    """Return what :func:`write_checked` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedError: the content does not match its digest, or has none.
    """
    with path.open("rb") as file:
        data = file.read(max(0, path.stat().st_size - _LINE_BYTES))
        line = _LINE.fullmatch(file.read())
    if line is None or line[1].decode() != digest(data):
        raise DamagedError(f"{path} is damaged: its content does not match its digest")
    return data


def write_twice(path: Path, data: bytes) -> None:
    """Replace a file's content durably, and then that of its copy.

    Raises:
        OSError: the disk refuses.
    """
    write_checked(path, data)
    write_checked(copy_of(path), data)


def read_twice(path: Path) -> tuple[bytes, bool]:
    """Return what :func:`write_twice` wrote, and whether the file is damaged and this is the copy's content.

    A file without a copy that ends in no digest was written before there were any. It is returned as it is.

    Raises:
        FileNotFoundError: there is no such file; its copy alone does not count, so that the owner can remove it.
        DamagedError: the file and its copy are damaged.
    """
    try:
        return read_checked(path), False
    except DamagedError as error:
        try:
            return read_checked(copy_of(path)), True
        except FileNotFoundError:
            data = path.read_bytes()
            if _LINE.fullmatch(data[-_LINE_BYTES:]):
                raise error from None
            return data, False
        except DamagedError:
            raise DamagedError(
                f"{path} and its copy are damaged; remove both to go on without them "
                '(docs/device.md, "Damage is noticed", says what that means)'
            ) from error


def mend_twice(path: Path) -> str:
    """Make a file and its copy whole and equal again; return what was wrong, or "".

    Raises:
        OSError: the disk refuses.
        DamagedError: both are damaged.
    """
    copy = copy_of(path)
    if not path.exists():  # the owner removed it: the copy must not bring it back
        remove_durably(copy)
        return ""
    data, from_copy = read_twice(path)
    if from_copy:
        write_checked(path, data)
        return f"{path.name} was damaged; its copy took its place"
    try:
        if read_checked(copy) == data:
            return ""
    except FileNotFoundError:  # written by an older version, or by a process that was killed before the copy
        write_twice(path, data)
        return ""
    except DamagedError:
        write_checked(copy, data)
        return f"{copy.name} was damaged, and was written anew"
    write_checked(copy, data)  # a process was killed between the two
    return ""


def copy_of(path: Path) -> Path:
    """Return where the copy of a file is."""
    return path.with_name(f"{path.name}.copy")


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file of any size.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
