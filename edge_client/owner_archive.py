"""Takes what an owner taught a device to another one: takes, what is not a label, and what he chose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from edge_client.audio.recordings import content_name, encode_wave, read_recording
from edge_client.clips.archive import Archive, Contents, packed
from edge_client.clips.folders import REJECTED, Clip, choose_known, is_label
from edge_client.errors import ClipError, EdgeError, RecordingError
from edge_client.owner import Teaching
from edge_client.storage.owner_acts import Act, Move
from fleet_protocol.ground.atomic_files import written_durably

_MB = 1_000_000
# What a file has beside its clips, at most.
_OTHERS_MB = 20


@dataclass
class Imported:
    """What became of a file: new clips by folder of the store, clips that were there, and what was left out and why."""

    stored: Counter[str] = field(default_factory=Counter)
    present: int = 0
    left_out: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return it for people."""
        found = [f"{_named(folder)}: {_clips(count)}" for folder, count in sorted(self.stored.items())]
        return [*found, *self.left_out, f"{_clips(self.stored.total())} stored, {self.present} were there already."]


def _named(folder: str) -> str:
    return folder.replace(f"{REJECTED}/", "not ", 1)


def _clips(count: int) -> str:
    return f"{count} {'clip' if count == 1 else 'clips'}"


def largest_bytes(teaching: Teaching) -> int:
    """Return how large a file may be that is taken in."""
    return round((teaching.config.clips.quota_mb + _OTHERS_MB) * _MB)


def exported(teaching: Teaching, left_out: list[str]) -> Iterator[bytes]:
    """Yield the parts of the file one by one; a clip that cannot be read is named in ``left_out``.

    Raises ClipError if nothing was taught or chosen.
    """
    store, choices = teaching.store, teaching.state.choices
    clips = [clip for folder in (*store.labels(), *store.rejected_folders()) for clip in store.clips(folder)]
    contents = Contents(teaching.chosen, choices.thresholds(), choices.listened())
    if not clips and not contents.known:
        raise ClipError("there is nothing to export: no clip was taught, and no sound chosen")
    return packed(contents, _encoded(teaching, clips, left_out))


def _encoded(teaching: Teaching, clips: list[Clip], left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    rate, written = teaching.settings.sample_rate_hz, set()
    for clip in clips:
        try:
            data = encode_wave(read_recording(clip.path, rate), rate)
        except (RecordingError, FileNotFoundError) as error:  # damaged, or deleted meanwhile
            left_out.append(str(error))
            continue
        entry = clip.label, content_name(data)
        if entry not in written:  # recordings of other names may be the same
            written.add(entry)
            yield clip.label, data


def take_in(teaching: Teaching, file: BinaryIO) -> Imported:
    """Take in what another device exported, all of it or, where it is refused, nothing; it can be undone.

    Raises ClipError if it is no such file, names a label that cannot be or has no slot, or another process is changing
    the store; QuotaError if there is no room.
    """
    archive, result = Archive(file, largest_bytes(teaching)), Imported()
    folders = {folder for folder, _, _ in archive.clips()}  # every clip is read once before one is stored
    wanted = {label: sound for label, sound in archive.contents.known.items() if sound in teaching.offered}
    for label in archive.contents.known.keys() - wanted.keys():
        result.left_out.append(f"{label} is left out as built-in: it is not in this device's bundle")
    with teaching.store.changing():
        known = teaching.known_labels()
        _require_slots(teaching, {folder for folder in folders if is_label(folder)} | wanted.keys())
        labels = {*known, *wanted, *filter(is_label, folders)}
        stored = _store(teaching, archive, labels, result)
        try:
            _choose(teaching, archive.contents, wanted, labels, stored)
        except (EdgeError, OSError):
            _remove(teaching, stored)
            raise
    return result


def _require_slots(teaching: Teaching, labels: set[str]) -> None:
    own = teaching.own  # sounds of others make room
    new = sorted(labels - own)
    if len(own) + len(new) > teaching.manifest.slots:
        raise ClipError(
            f"no slot is free for all of {', '.join(new)}: you taught or chose {len(own)} sounds, and the model's head "
            f"has {teaching.manifest.slots} slots; delete some first, or build a bundle with a larger --capacity"
        )


def _store(teaching: Teaching, archive: Archive, labels: set[str], result: Imported) -> list[Move]:
    """Store the clips of labels, and of what is not one where that can be learned; return them."""
    stored: list[Move] = []
    refused: Counter[str] = Counter()
    try:
        for folder, samples, rate_hz in archive.clips():
            if not is_label(folder) and (folder.rpartition("/")[2] not in labels or not teaching.label_map.reserved):
                refused[folder] += 1
                continue
            path, is_new = teaching.store.add(folder, samples, rate_hz)
            if is_new:
                stored.append(Move("", folder, path.name))
                result.stored[folder] += 1
            else:
                result.present += 1
    except (EdgeError, OSError):
        _remove(teaching, stored)
        raise
    result.left_out += [f"{_named(folder)}: {_clips(count)} left out" for folder, count in sorted(refused.items())]
    return stored


def _remove(teaching: Teaching, stored: list[Move]) -> None:
    for move in stored:
        teaching.store.delete(Clip(move.target, teaching.store.folder / move.target / move.name))


def _choose(
    teaching: Teaching, contents: Contents, wanted: dict[str, str], labels: set[str], stored: list[Move]
) -> None:
    """Choose what was chosen there and is not here, and note all as one act."""
    choices, chosen = teaching.state.choices, teaching.chosen
    known = {label: sound for label, sound in wanted.items() if label not in chosen}
    own = choices.thresholds()
    thresholds = {name: value for name, value in contents.thresholds.items() if name in labels and name not in own}
    already = choices.listened()
    listened = {name: one for name, one in contents.listened.items() if name in labels and name not in already}
    if stored or known or thresholds or listened:
        before = dict.fromkeys(known), dict.fromkeys(thresholds)
        act = Act("imported", moves=tuple(stored), known=before[0], thresholds=before[1], listened=tuple(listened))
        teaching.state.acts.add(act)
    for label, sound in known.items():
        choose_known(teaching.store.folder, label, sound)
    for label, threshold in thresholds.items():
        choices.set_threshold(label, threshold)
    for label, one in listened.items():
        choices.listen(label, one)


def export_to(teaching: Teaching, path: Path) -> list[str]:
    """Write the file, for its owner alone to read; return what was left out. Raises ClipError if it exists already."""
    if path.exists():
        raise ClipError(f"{path} exists already; give another name")
    left_out: list[str] = []
    parts = exported(teaching, left_out)
    with written_durably(path) as file:
        for part in parts:
            file.write(part)
    return left_out
