"""What lies in the clip store, found by names alone: no file is opened, and no lock is needed."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edge_client.audio.recordings import SUFFIXES
from edge_client.clips.labels import BACKGROUND, REJECTED, is_label


@dataclass(frozen=True)
class Clip:
    """One clip of the store.

    Attributes:
        label: Label of the sound, or a reserved folder.
        path: Path of the file.
    """

    label: str
    path: Path

    @property
    def clip_id(self) -> str:
        """The file's name without its suffix."""
        return self.path.stem


def label_folders(folder: Path) -> list[Path]:
    """Return the labels' folders, the background's, and those of what is not a label."""
    if not folder.is_dir():
        return []
    names = _folders(folder)
    found = [folder / name for name in names if name == BACKGROUND or is_label(name)]
    return found + [folder / REJECTED / name for name in (_folders(folder / REJECTED) if REJECTED in names else ())]


def folder_of(path: Path, store: Path) -> str:
    """Return the folder of a clip below the store's: its label, or a reserved name."""
    return path.parent.relative_to(store).as_posix()


def clip_files(folder: Path) -> list[Path]:
    """Return every clip, every piece of background, and what is not a label, in the order of folders and names."""
    suffixes = tuple(SUFFIXES)
    return [
        label / name
        for label in label_folders(folder)
        for name in _names(label)
        if not name.startswith(".") and name.lower().endswith(suffixes)
    ]


def clips_of_a_round(folder: Path, max_per_label: int) -> int:
    """Return how many clips a round would take: all of every label, or ``max_per_label`` where it has more."""
    counts = Counter(name for path in clip_files(folder) if is_label(name := folder_of(path, folder)))
    return sum(min(count, max_per_label) for count in counts.values())


def labels_with_clips(folder: Path) -> tuple[str, ...]:
    """Return the labels that have clips, in alphabetical order."""
    return tuple(sorted({name for path in clip_files(folder) if is_label(name := folder_of(path, folder))}))


def _folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except FileNotFoundError:
        return []  # a label went with its last clip


def store_digest(folder: Path) -> str | None:
    """Return 16 hex digits that change when a clip comes, goes or gets another label; None where no label has one.

    Only names are read, no file is opened.
    """
    paths = clip_files(folder)
    if not any(is_label(folder_of(path, folder)) for path in paths):
        return None
    names = "\n".join(path.relative_to(folder).as_posix() for path in paths)
    return hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()[:16]
