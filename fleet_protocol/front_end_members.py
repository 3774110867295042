"""Networks and statistics that ship with Auricle, found by their digests.

The files ``front_ends/NAME.frontend`` hold them. A ready bundle, or a second front end on the same network, leaves them
out, so that they are installed once.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "edge_client" / "front_ends"
"""Folder of the front ends that ship."""
SUFFIX = ".frontend"
DESCRIPTION = "frontend.json"


def find_member(sha256: str, folder: Path = FOLDER) -> bytes:
    """Return the member of a front end's file that has a SHA-256 digest; nothing where a folder has none.

    The digest is the one that the file states: the caller checks the bytes.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with zipfile.ZipFile(path) as archive:
            files = json.loads(archive.read(DESCRIPTION))["files"]
            held = set(archive.namelist())
            for name, file in files.items():
                if file["sha256"] == sha256 and name in held:
                    return archive.read(name)
    return b""
