"""The bundles that come with Auricle, found by name: `bundle = "base"` in a file of settings, or a command's argument.

A name has neither a slash nor a suffix. Anything else is the path of a file. `make bundles` makes the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fleet_protocol.errors import BundleError

FOLDER = Path(__file__).resolve().parent.parent / "edge_client" / "bundles"
"""Folder of the ready bundles, ``NAME.auricle``."""
SUFFIX = ".auricle"
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
    """Return the file of a bundle.

    Args:
        given: the name of a ready bundle, or a path.
        folder: where relative paths start.

    Raises BundleError: no ready bundle has this name. That a path leads to a bundle is not checked.
    """
    path = Path(given).expanduser()
    if path.suffix or path.name != given:
        return folder / path
    if given not in ready_names():
        raise BundleError(f"no ready bundle is called {given!r}; {choice()}, such as ./{given}{SUFFIX}")
    return FOLDER / f"{given}{SUFFIX}"
