"""Styles and scripts of the pages, read once; their addresses change with their bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file, and the first half of its SHA-256."""

    data: bytes
    media_type: str
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """Return every file by its name below the folder."""
    return {
        path.relative_to(_FOLDER).as_posix(): Asset(
            path.read_bytes(), _TYPES[path.suffix], hashlib.sha256(path.read_bytes()).hexdigest()[:32]
        )
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }


def address_of(name: str) -> str:
    """Return the address of a file."""
    return f"/static/{name}?{assets()[name].digest}"
