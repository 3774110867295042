"""Files that show their own damage: the content, then a line with its SHA-256 digest.

A worn memory card flips bits without reporting an error. A file that the device could not get again is written twice,
so that the copy takes its place (docs/device.md, "Damage is noticed").
"""

import hashlib
import logging
import os
import re
import threading
from pathlib import Path

from edge_client.errors import DamagedError, StateError
from fleet_protocol.ground.atomic_files import remove_durably, write_durably
from fleet_protocol.numbers.tensors import digest

log = logging.getLogger(__name__)

_LINE = re.compile(rb"\n#sha256 ([0-9a-f]{64})\n")
_LINE_BYTES = len(b"\n#sha256 ") + 64 + 1
# One thread of the daemon mends while another may write.
_WRITING = threading.Lock()


def write_checked(path: Path, data: bytes) -> None:
    """Replace a file's content durably, with its digest behind it."""
    write_durably(path, data + b"\n#sha256 " + digest(data).encode() + b"\n")


def read_checked(path: Path) -> bytes:
    """Return what :func:`write_checked` wrote. Raises FileNotFoundError, or DamagedError if its digest differs."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # of this one: another may have taken its place meanwhile
        data = file.read(max(0, size - _LINE_BYTES))
        line = _LINE.fullmatch(file.read())
    if line is None or line[1].decode() != digest(data):
        raise DamagedError(f"{path} is damaged: its content does not match its digest")
    return data


def write_twice(path: Path, data: bytes) -> None:
    """Replace a file's content durably, and then that of its copy."""
    with _WRITING:
        write_checked(path, data)
        write_checked(copy_of(path), data)


def remove_twice(path: Path) -> None:
    """Remove a file, and then its copy."""
    remove_durably(path)
    remove_durably(copy_of(path))


def read_twice(path: Path) -> bytes:
    """Return what :func:`read_file_or_copy` does, with its errors; that the copy is used is logged."""
    data, from_copy = read_file_or_copy(path)
    if from_copy:
        log.error("%s is damaged; this device goes on with its copy", path)
    return data


def read_file_or_copy(path: Path) -> tuple[bytes, bool]:
    """Return what :func:`write_twice` wrote, and whether the file is damaged and this is the copy's content.

    Raises FileNotFoundError if there is no such file; its copy alone does not count, so that the owner can remove it;
    DamagedError if the file and its copy are damaged.
    """
    try:
        return read_checked(path), False
    except DamagedError as error:
        try:
            return read_checked(copy_of(path)), True
        except (FileNotFoundError, DamagedError):
            raise DamagedError(
                f"{path} and its copy are damaged; remove both to go on without them "
                '(docs/device.md, "Damage is noticed", says what that means)'
            ) from error


def of_another_release(path: Path, found: object, way_out: str) -> StateError:
    """Return how to say that a file is whole, and nothing that this release writes."""
    return StateError(f"{path} is of another release of Auricle ({found}); run that release, or {way_out}")


def mend_twice(path: Path) -> str:
    """Make a file and its copy whole and equal again; return what was wrong, or "". Raises DamagedError if both are."""
    copy = copy_of(path)
    with _WRITING:
        if not path.exists():  # the owner removed it: the copy must not bring it back
            remove_durably(copy)
            return ""
        data, from_copy = read_file_or_copy(path)
        if from_copy:
            write_checked(path, data)
            return f"{path.name} was damaged; its copy took its place"
        found = ""
        try:
            if read_checked(copy) == data:
                return ""
        except FileNotFoundError:  # a process was killed before it wrote the copy
            pass
        except DamagedError:
            found = f"{copy.name} was damaged, and was written anew"
        write_checked(copy, data)  # where they differ, a process was killed between the two
        return found


def copy_of(path: Path) -> Path:
    """Return where the copy of a file is."""
    return path.with_name(f"{path.name}.copy")


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finished_files(folder: Path) -> list[Path]:
    """Return the files of a folder, without those that are being written; none where there is no folder."""
    return sorted(path for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []
