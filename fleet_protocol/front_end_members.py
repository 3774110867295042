"""Networks and statistics that ship with Auricle, found by their digests.

The files ``front_ends/NAME.frontend`` hold them, and the ready bundle ``base`` the statistics of its words. A ready
bundle, or a second front end on the same network, leaves them out, so that they are installed once.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from fleet_protocol.errors import BundleError

FOLDER = Path(__file__).resolve().parent.parent / "edge_client" / "front_ends"
"""Folder of the front ends that ship."""
SUFFIX = ".frontend"
DESCRIPTION = "frontend.json"
_WHOLE = FOLDER.parent / "bundles" / "base.auricle"
"""A ready bundle that leaves out nothing, and holds statistics as no front end's file does."""


def find_member(sha256: str, folder: Path = FOLDER) -> bytes:
    """Return what has a SHA-256 digest of a folder's front ends; nothing where there is none.

    The digest is the one that the file states: the caller checks the bytes.

    Raises BundleError: a front end's file is damaged.
    """
    others = _WHOLE.parent.glob(_WHOLE.name) if folder == FOLDER else ()
    for path in (*sorted(folder.glob(f"*{SUFFIX}")), *others):
        try:
            if (member := _member(path, sha256)) is not None:
                return member
        except (
            OSError,
            zipfile.BadZipFile,
            LookupError,
            RuntimeError,
            ValueError,
            EOFError,
            TypeError,
            AttributeError,
        ) as error:
            raise BundleError(
                f"{path}, which comes with Auricle, is damaged ({error}); install Auricle again"
            ) from error
    return b""


def _member(path: Path, sha256: str) -> bytes | None:
    with zipfile.ZipFile(path) as archive:
        held = set(archive.namelist())
        if DESCRIPTION in held:
            files = {name: file["sha256"] for name, file in json.loads(archive.read(DESCRIPTION))["files"].items()}
        else:
            files = json.loads(archive.read("manifest.json"))["sha256"]
        name = next((name for name, digest in files.items() if digest == sha256 and name in held), None)
        return None if name is None else archive.read(name)
