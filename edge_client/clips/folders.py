"""What lies in the clip store, found by names alone, and which words can be a label: no file is opened."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from edge_client.audio.recordings import is_recording, is_unicode
from edge_client.errors import ClipError
from fleet_protocol.bundle.labels import is_name, normal_name

# The folder of what the room sounds like when nothing happens, from which the model learns to stay undecided. It is no
# label: whoever lists labels leaves out every name that starts like it.
BACKGROUND = "_background_"
# The folder of clips that are not a label's although they resemble it, in a folder for each label.
REJECTED = "_not_"
# The folder of what was deleted lately, in the folder that each clip came from. Nothing lists it or learns from it.
DELETED = "_deleted_"

# The aggregator takes names of up to 200 characters; a folder's name must fit 255 bytes.
_LONGEST, _LONGEST_BYTES = 100, 240
_STATES = ("unknown", "unavailable", "none")

# A folder that changed within so many ns is read again: the coarsest disks count in two seconds.
_SETTLED_NS = 4_000_000_000


def rejected(label: str) -> str:
    """Return the folder, below the store's, of clips that are not a label's although they resemble it."""
    return f"{REJECTED}/{label}"


def is_label(folder: str) -> bool:
    """Return whether a folder below the store's is a label's."""
    return not folder.startswith(("_", "."))


def check_folder(folder: str) -> str:
    """Return a folder as it is stored: a label's, or a reserved one. Raises ClipError if the label cannot be one."""
    if folder == BACKGROUND:
        return folder
    kind, _, label = folder.partition("/")
    if kind == DELETED:
        return f"{DELETED}/{check_folder(label)}"
    return rejected(check_label(label)) if kind == REJECTED else check_label(folder)


def check_label(label: str) -> str:
    """Return a label as it is stored (``normal_name``). Raises ClipError if it cannot be a label; says why."""
    normal = normal_name(label)
    size = len(normal.encode(errors="replace"))
    problems = {
        "it must not be empty": not normal,
        f"it must have at most {_LONGEST} characters, not {len(normal)}": len(normal) > _LONGEST,
        f"it must have at most {_LONGEST_BYTES} bytes in UTF-8, not {size}": size > _LONGEST_BYTES,
        "it must not contain / or \\": bool(set(normal) & set("/\\")),
        "it must not start with _ or .": normal.startswith(("_", ".")),
        "it must be printable": not is_name(normal),
        "Home Assistant has this word for a sensor without a state": normal.casefold() in _STATES,
    }
    for problem, found in problems.items():
        if found:
            raise ClipError(f"{label[:200]!r} cannot be a label: {problem}")
    return normal


@dataclass(frozen=True)
class Clip:
    """One clip of the store."""

    label: str
    path: Path

    @property
    def clip_id(self) -> str:
        """What its owner calls it by."""
        return clip_id_of(self.path)


def clip_id_of(path: Path) -> str:
    """Return a clip's identifier: the file's name without its suffix; bytes that are no UTF-8 read ``\\xfc``."""
    return os.fsencode(path.stem).decode(errors="backslashreplace")


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
    return [label / entry.name for label in label_folders(folder) for entry in _entries(label) if is_recording(entry)]


def clips_of_a_round(folder: Path, max_per_label: int) -> int:
    """Return how many clips a round would take: all of every label, or ``max_per_label`` where it has more."""
    counts = Counter(name for path in clip_files(folder) if is_label(name := folder_of(path, folder)))
    return sum(min(count, max_per_label) for count in counts.values())


def labels_with_clips(folder: Path) -> tuple[str, ...]:
    """Return the labels that have clips, in alphabetical order."""
    return _contents(folder).labels


def _folders(folder: Path) -> list[str]:
    """Return the folders' names; one that is no UTF-8 can be no label, and is left out."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and is_unicode(entry.name))


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in _entries(folder)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []  # a label went with its last clip


def store_digest(folder: Path) -> str | None:
    """Return 16 hex digits that change when a clip comes, goes or gets another label; None where no label has a clip
    or is a built-in sound. Only names are read, no file is opened.
    """
    return _contents(folder).digest


@dataclass(frozen=True)
class _Contents:
    """What the names in a store say; ``times``: of its folders, when each changed last, in ns since 1970."""

    times: tuple[tuple[str, int], ...]
    labels: tuple[str, ...]
    marks: tuple[str, ...]
    digest: str | None


# The daemon and the page ask every few seconds, and a store may hold very many clips.
_last: dict[Path, _Contents] = {}


def _contents(folder: Path) -> _Contents:
    """Return what the names say; they are read again only where a folder changed since, or did a moment before."""
    times, read_at = _times(folder), time.time_ns()
    if times and (last := _last.get(folder)) is not None and last.times == times:
        return last
    paths, marks = clip_files(folder), tuple(_marks(folder))
    labels = tuple(sorted({name for path in paths if is_label(name := folder_of(path, folder))}))
    digest = None
    if marks or labels:
        names = "\n".join([*(path.relative_to(folder).as_posix() for path in paths), *marks])
        digest = hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()[:16]
    contents = _Contents(times, labels, marks, digest)
    _last.pop(folder, None)
    # A disk counts time in steps, so a second change may leave the same time; one that keeps none says 0.
    if all(0 < changed < read_at - _SETTLED_NS for _, changed in times):
        _last[folder] = contents
    return contents


def _times(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return the store's folders, and when each of them changed last; none where one goes meanwhile."""
    try:
        found = [folder, folder / REJECTED] if (folder / REJECTED).is_dir() else [folder]
        return tuple((str(path), path.stat().st_mtime_ns) for path in (*found, *label_folders(folder)))
    except FileNotFoundError:
        return ()


WORD, SOUND = "word", "sound"
"""What a label is, on a front end that hears both: a spoken word, or an everyday sound."""
# Without a dot, so that it goes into a backup: where nothing was taught there is no clip to say that the label exists.
_KNOWN = "known-"


def known_labels(folder: Path) -> dict[str, str]:
    """Return by label which built-in sound it is, where the owner chose one."""
    return {label: sound for label, _, sound in (mark.partition(f"/{_KNOWN}") for mark in _contents(folder).marks)}


def own_labels(folder: Path) -> set[str]:
    """Return the labels that the owner taught, or chose of the built-in sounds."""
    return {*labels_with_clips(folder), *known_labels(folder)}


def choose_known(folder: Path, label: str, sound: str | None) -> None:
    """Remember that a label is a built-in sound; None: it is none any more."""
    place = folder / label
    for name in _names(place):
        if name.startswith(_KNOWN) and name != f"{_KNOWN}{sound}":
            (place / name).unlink(missing_ok=True)
    if sound is not None:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / f"{_KNOWN}{sound}").touch(mode=0o600)
    elif place.is_dir() and not any(place.iterdir()):
        place.rmdir()


def _marks(folder: Path) -> list[str]:
    labels = [path for path in label_folders(folder) if is_label(folder_of(path / "any", folder))]
    return [f"{path.name}/{name}" for path in labels for name in _names(path) if name.startswith(_KNOWN)]
