"""Embeddings of what the device was taught with, kept on the disk: a board computes each but once.

The file is as private as the clips: an embedding tells much of a voice. Each saving leaves out what was not asked for
since the cache was opened; `auricle-edge clips delete` forgets the embeddings of the clips that it deletes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import read_checked, write_checked
from fleet_protocol.errors import TensorError
from fleet_protocol.ground.atomic_files import remove_durably
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.tensors import Arrays, pack, unpack


class EmbeddingCache:
    """One file of arrays by key; for one process at a time."""

    def __init__(self, path: Path, recipe: str) -> None:
        """Read what there is; a damaged file, or one whose arrays another recipe computed, counts as empty."""
        self._path = path
        self._recipe = recipe
        self._kept = _read(path, recipe)
        self._used: Arrays = {}

    def get(self, key: str, compute: Callable[[], Floats]) -> Floats:
        """Return the array of a key, computed now where it is not there."""
        if key not in self._used:
            self._used[key] = np.asarray(self._kept[key] if key in self._kept else compute(), np.float32)
        return np.asarray(self._used[key], np.float32)

    def save(self) -> None:
        """Replace the file by what was asked for, where that is something else than it holds."""
        if self._used.keys() != self._kept.keys():
            write_checked(self._path, pack(self._used, {"recipe": self._recipe}))
            self._kept = self._used


def clip_key(path: Path) -> str:
    """Return the key of a recording: 32 hex digits of the digest of its content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def is_clip(key: str) -> bool:
    """Return whether a key is a clip's. Others, as of spliced clips or of a clip's length, have a dash in them."""
    return "-" not in key


def forget_clips(path: Path, present: Iterable[Path]) -> None:
    """Remove from a cache, whose file need not exist, all but the embeddings of clips that are still there."""
    if not path.exists():
        return
    try:
        arrays, document = unpack(read_checked(path))
    except (DamagedError, TensorError):
        remove_durably(path)
        return
    kept = {key: arrays[key] for key in map(clip_key, present) if key in arrays}
    if kept.keys() != arrays.keys():
        write_checked(path, pack(kept, document))


def _read(path: Path, recipe: str) -> Arrays:
    try:
        arrays, document = unpack(read_checked(path))
    except (FileNotFoundError, DamagedError, TensorError):
        return {}
    return arrays if document.get("recipe") == recipe else {}
