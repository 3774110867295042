"""The bundles that come with Auricle, found by name: `bundle = "base"` in a file of settings, or a command's argument.

A name has neither a slash nor a suffix. Anything else is the path of a file. `make bundles` makes the files. What
several of them would hold, networks and statistics, is found by its digest in the files ``front_ends/NAME.frontend``
and, where these are statistics of words, in the bundle ``base``, so that it is installed once.
"""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Annotated

from fleet_protocol.bounded_files import require_regular
from fleet_protocol.errors import BundleError

FOLDER = Path(__file__).resolve().parents[2] / "edge_client" / "bundles"
"""Folder of the ready bundles, ``NAME.auricle``."""
SUFFIX = ".auricle"
FRONT_ENDS = FOLDER.parent / "front_ends"
"""Folder of the front ends that ship."""
FRONT_END_SUFFIX = ".frontend"
DESCRIPTION = "frontend.json"
LARGEST_BYTES = 2**30
"""Of a bundle, a front end or a graph; no device has room for a larger one."""
DAMAGED = (
    *(OSError, zipfile.BadZipFile, zlib.error, LookupError, RuntimeError, ValueError, EOFError, TypeError),
    AttributeError,
)
"""What reading a damaged archive and its JSON may raise."""
FIRST_CHOICE = "words"
"""The one to take where there is no reason to take another."""

BundlePath = Annotated[Path, "bundle"]
"""Type of a key in a file of settings that names a ready bundle or gives a path; once it is read, a path."""


def ready_names() -> tuple[str, ...]:
    """Return the names of the ready bundles, in order."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def choice() -> str:
    """Say what names a bundle, for messages."""
    return f"ready: {', '.join(ready_names())}; or give the path of a file"


def find_bundle(given: str, folder: Path = Path()) -> Path:
    """Return the file of a bundle, by the name of a ready one or by its path; ``folder``: where relative ones start.

    Raises BundleError: no ready bundle has this name. That a path leads to a bundle is not checked.
    """
    path = Path(given).expanduser()
    if path.suffix or path.name != given:
        return folder / path
    if given not in ready_names():
        raise BundleError(f"no ready bundle is called {given!r}; {choice()}, such as ./{given}{SUFFIX}")
    return FOLDER / f"{given}{SUFFIX}"


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open the file of a bundle or a front end.

    Raises OSError: it is not there, is no regular file, or is or would unpack to more than 1 GiB; BadZipFile.
    """
    require_regular(path, LARGEST_BYTES)
    archive = zipfile.ZipFile(path)
    if sum(member.file_size for member in archive.infolist()) > LARGEST_BYTES:
        archive.close()
        raise OSError(f"its members have more than {LARGEST_BYTES} bytes, the most that are read")
    return archive


def find_member(sha256: str, folder: Path = FRONT_ENDS) -> bytes:
    """Return what has a SHA-256 digest of a folder's front ends; nothing where there is none.

    The digest is the one that the file states: the caller checks the bytes.

    Raises BundleError: a front end's file is damaged.
    """
    others = FOLDER.glob(f"base{SUFFIX}") if folder == FRONT_ENDS else ()
    for path in (*sorted(folder.glob(f"*{FRONT_END_SUFFIX}")), *others):
        try:
            if (member := _member(path, sha256)) is not None:
                return member
        except DAMAGED as error:
            raise BundleError(
                f"{path}, which comes with Auricle, is damaged ({error}); install Auricle again"
            ) from error
    return b""


def _member(path: Path, sha256: str) -> bytes | None:
    with open_archive(path) as archive:
        held = set(archive.namelist())
        if DESCRIPTION in held:
            files = {name: file["sha256"] for name, file in json.loads(archive.read(DESCRIPTION))["files"].items()}
        else:
            files = json.loads(archive.read("manifest.json"))["sha256"]
        name = next((name for name, digest in files.items() if digest == sha256 and name in held), None)
        return None if name is None else archive.read(name)
