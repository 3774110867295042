"""Which recordings a data set has, of what label and by whom, out of the names that its authors gave its files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from edge_client.capture.recordings import SUFFIXES, speaker_of
from fleet_simulator.errors import CorpusError

_SPEAKER = re.compile(r"(?:^|_)([0-9a-f]{8})_nohash_")
BACKGROUNDS = ("_background_noise_", "_silence_")
NOBODY = ""


@dataclass(frozen=True)
class Entry:
    """One recording.

    Attributes:
        path: where it lies, in the file system or in an archive.
        label: its class.
        speaker: who speaks, or which longer recording it was cut from; ``NOBODY``: neither.
        word: what is said, where the label stands for many words.
    """

    path: PurePath
    label: str
    speaker: str
    word: str = ""


def speech_commands(folder: Path) -> list[Entry]:
    """List ``<label>/<speaker>_nohash_<n>.wav`` (Warden 2018), or any recordings ``<label>/<speaker>_<rest>``.

    A word may stand before the speaker: ``_unknown_/bed_<speaker>_nohash_<n>.flac``.
    """
    entries = []
    for path in recordings(folder, "*/*"):
        label, spoken = path.parent.name, _SPEAKER.search(path.name)
        if label in BACKGROUNDS:
            entries.append(Entry(path, label, NOBODY))
        elif spoken:
            entries.append(Entry(path, label, spoken[1], path.name[: spoken.start()]))
        else:
            entries.append(Entry(path, label, speaker_of(path)))
    return _some(entries, folder, "<label>/<speaker>_nohash_<n>.wav")


def recordings(folder: Path, pattern: str) -> list[Path]:
    """Return the recordings of a folder whose paths are like a pattern, in order; hidden ones are left out.

    Raises:
        CorpusError: there is no such folder.
    """
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}")
    found = (path for path in folder.glob(pattern) if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in found if not any(part[0] == "." for part in path.relative_to(folder).parts))


def _some(entries: list[Entry], folder: Path, layout: str) -> list[Entry]:
    if not entries:
        raise CorpusError(f"{folder} holds no clips as {layout}")
    return entries


LAYOUTS: dict[str, Callable[[Path], list[Entry]]] = {"speech_commands": speech_commands}
