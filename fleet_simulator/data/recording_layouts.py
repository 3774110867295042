"""Which recordings a data set has, of what label and by whom, out of the names that its authors gave its files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from edge_client.audio.recordings import FORMATS, SUFFIXES, duration_s, word_and_speaker
from edge_client.errors import RecordingError
from fleet_simulator.errors import CorpusError

_SLICE = re.compile(r"(?:fold\d+_)?(\d+)-(\d)-\d+-\d+")  # fsID and classID of UrbanSound8K
_URBAN_SOUNDS = (
    "air_conditioner",
    "car_horn",
    "children_playing",
    "dog_bark",
    "drilling",
    "engine_idling",
    "gun_shot",
    "jackhammer",
    "siren",
    "street_music",
)
BACKGROUNDS = ("_background_noise_", "_silence_")
NOBODY = ""


@dataclass(frozen=True)
class Entry:
    """One recording."""

    path: PurePath  # where it lies, in the file system or in an archive
    label: str  # its class
    speaker: str  # who speaks, or which longer recording it was cut from; ``NOBODY``: neither
    word: str = ""  # a class of its own where that is wanted: what is said, where the label stands for many words
    second: int | None = None  # which second of a long recording this is, from 0; None: all of it


def speech_commands(folder: Path) -> list[Entry]:
    """List ``<label>/<speaker>_nohash_<n>.wav`` (Warden 2018), or any recordings ``<label>/<speaker>_<rest>``.

    A word may stand before the speaker: ``_unknown_/bed_<speaker>_nohash_<n>.flac``. Long recordings of background
    noise count second by second.
    """
    return _some(_by_label(folder), folder, "<label>/<speaker>_nohash_<n>.wav")


def own_recordings(folder: Path) -> list[Entry]:
    """List recordings of one's own, ``<label>/<speaker>_<rest>``: a name without ``_`` is a speaker of its own.

    Else they are as those of :func:`speech_commands`. Raises CorpusError: there is no such folder, or it holds none.
    """
    layout = f"<label>/<speaker>_<anything> ({FORMATS})"
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}; recordings are expected there as {layout}")
    return _some(_by_label(folder), folder, layout)


def _by_label(folder: Path) -> list[Entry]:
    entries = []
    for path in recordings(folder, "*/*"):
        label = path.parent.name
        if label in BACKGROUNDS:
            entries += [Entry(path, label, NOBODY, second=second) for second in _seconds(path)]
        else:
            word, speaker = word_and_speaker(path)
            entries.append(Entry(path, label, speaker, word))
    return entries


def urbansound8k(folder: Path) -> list[Entry]:
    """List ``audio/fold<n>/<fsID>-<classID>-<occurrence>-<slice>.wav`` (Salamon et al. 2014), or such files in folders.

    A fold may also stand before the name: ``<class>/fold<n>_<fsID>-....ogg``.
    """
    found = recordings(folder, "audio/fold*/*") + recordings(folder, "*/*")
    cuts = ((path, _SLICE.fullmatch(path.stem)) for path in found)
    entries = [Entry(path, _URBAN_SOUNDS[int(cut[2])], cut[1]) for path, cut in cuts if cut]
    return _some(entries, folder, "audio/fold<n>/<fsID>-<classID>-<occurrence>-<slice>.wav")


def _seconds(path: Path) -> list[int | None]:
    """Return the seconds of a long recording that is used; of one below two seconds: None, for all of it."""
    try:
        count = int(duration_s(path))
    except RecordingError as error:
        raise CorpusError(str(error)) from error
    return list(range(count)) if count > 1 else [None]


def recordings(folder: Path, pattern: str) -> list[Path]:
    """Return a folder's recordings whose paths match a pattern, in order, without hidden ones. Raises CorpusError."""
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}")
    found = (path for path in folder.glob(pattern) if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in found if not any(part[0] == "." for part in path.relative_to(folder).parts))


def _some(entries: list[Entry], folder: Path, layout: str) -> list[Entry]:
    if not entries:
        raise CorpusError(f"{folder} holds no clips as {layout}")
    return entries


LAYOUTS: dict[str, Callable[[Path], list[Entry]]] = {
    "recordings": own_recordings,
    "speech_commands": speech_commands,
    "urbansound8k": urbansound8k,
}
