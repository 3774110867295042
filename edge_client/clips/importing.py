"""Brings recordings from elsewhere into the clip store: each file is read, checked, converted and stored by itself."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edge_client.audio.level import FLOOR_DB, levels_db, require_unclipped
from edge_client.audio.recordings import FORMATS, LONGEST_S, loudest_stretch, read_blocks, whole_s, whole_stretch
from edge_client.clips.folders import check_label
from edge_client.clips.store import ClipStore
from edge_client.errors import ClipError, QuotaError, RecordingError, TakeError
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats

# Quieter files hold nothing that could be learned.
_QUIETEST_DB = -70.0
# Shorter files are pieces of a sound.
_SHORTEST_S = 0.2
# A sound that lasts so long is no pop; above the room's usual power by so much it is a sound.
_LASTS_S, _FRAME_S, _ABOVE_ROOM = 0.15, 0.01, 10.0
# A minute is searched at a time; a sound that begins in the last seconds of one is whole in the next.
_OVERLAP_S = 5
# What was read is stored together, so often; the store is held meanwhile, and not while files are read.
_STORE_EVERY_S = 1.0
_AT_ONCE = 64


@dataclass
class Summary:
    """What became of the files: new clips by label, and where, files that were present before, refused ones and why."""

    stored: Counter[str] = field(default_factory=Counter)
    added: list[Path] = field(default_factory=list)
    present: int = 0
    refused: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Read:
    """A clip that is to be stored: the file that it is of, its folder of the store, float32 [samples]."""

    path: Path
    label: str
    samples: Floats


def import_folder(
    folder: Path,
    label: str | None,
    store: ClipStore,
    settings: FeatureSettings,
    check: Callable[[str], str] = check_label,
    summary: Summary | None = None,
    advance: Callable[[float, int], None] = lambda _done, _of: None,
) -> Summary:
    """Store the recordings of ``folder/<label>/``, or those of the folder itself, or one file, under one ``label``.

    Of a recording that is longer than a clip the loudest stretch is taken, as training does. What was stored stays
    stored when a later file cannot be.

    Args:
        check: returns the store's folder for a label, or raises a ClipError.
        summary: kept up to date meanwhile, for a caller who may be interrupted.
        advance: called at each minute of a file, with the number of files that are done, in parts of one too, and of
            all.

    Raises RecordingError if the folder holds no recordings where they are searched for; ClipError if the label cannot
    be one, or another process is changing the store; QuotaError if the store is full.
    """
    if label is not None:
        check(label)  # before anything is read
    files = list(_files(folder, label))
    if not files:
        expected = "recordings" if label is not None else "folders of recordings, one for each label"
        raise RecordingError(f"no {expected} in {folder}: searched for {FORMATS}; --label takes a flat folder")
    summary = Summary() if summary is None else summary
    with store.changing():
        pass  # before anything is read: may this be changed?
    read: list[_Read] = []
    stored_at = time.monotonic()
    for done, (name, path) in enumerate(files):

        def within(share: float, done: int = done) -> None:
            advance(done + share, len(files))

        if read and name != files[done - 1][0]:  # what a label may be depends on those that are stored
            _store(read, store, settings, summary)
        try:
            read.append(_Read(path, check(name), _read_file(path, settings, within)))
        except (RecordingError, ClipError) as error:
            summary.refused[path] = str(error)
        if time.monotonic() - stored_at > _STORE_EVERY_S or len(read) >= _AT_ONCE:
            _store(read, store, settings, summary)
            stored_at = time.monotonic()
    _store(read, store, settings, summary)
    return summary


def _files(folder: Path, label: str | None) -> Iterator[tuple[str, Path]]:
    """Find the files that may be recordings, each with its label; everything but hidden files and folders."""
    if label is not None and folder.is_file():
        yield label, folder
        return
    if folder.is_file():
        raise RecordingError(f"{folder} is a file: say what it is a sound of with --label")
    if not folder.is_dir():
        raise RecordingError(f"{folder} is not a folder; give the one that holds the recordings")
    folders = [folder] if label is not None else [path for path in folder.iterdir() if path.is_dir()]
    for sub in sorted(path for path in folders if path is folder or not path.name.startswith(".")):
        name = sub.name if label is None else label
        yield from ((name, path) for path in sorted(sub.iterdir()) if path.is_file() and path.name[0] != ".")


def _read_file(path: Path, settings: FeatureSettings, advance: Callable[[float], None]) -> Floats:
    """Return the clip of a recording, float32 [samples]. Raises RecordingError if it is no use."""
    recorded = _loudest_minute(path, settings.sample_rate_hz, advance)
    try:
        require_unclipped(recorded)
    except TakeError as error:
        raise RecordingError(f"{path} is {error}, and record it again") from error
    samples = sounding_stretch(recorded - recorded.mean(), settings)
    if len(samples) < _SHORTEST_S * settings.sample_rate_hz:
        raise RecordingError(
            f"{path} lasts {len(samples) / settings.sample_rate_hz:.2f} s, and the least is {_SHORTEST_S:g} s: record "
            f"the sound with the room around it, {settings.clip_s:g} s altogether"
        )
    levels = levels_db(samples, settings.sample_rate_hz)
    if not len(levels) or levels.max() < _QUIETEST_DB:
        raise RecordingError(f"{path} is silent")
    return samples.copy()  # of the minute nothing stays in memory


def _store(read: list[_Read], store: ClipStore, settings: FeatureSettings, summary: Summary) -> None:
    with store.changing():
        while read:
            one = read.pop(0)
            try:
                path, is_new = store.add(one.label, one.samples, settings.sample_rate_hz)
                if is_new:
                    summary.added.append(path)
                    summary.stored[one.label] += 1
                else:
                    summary.present += 1
            except QuotaError as error:
                raise QuotaError(f"{summary.stored.total()} files were stored, then: {error}") from error
            except ClipError as error:
                summary.refused[one.path] = str(error)


def _loudest_minute(path: Path, rate_hz: int, advance: Callable[[float], None]) -> Floats:
    """Return the minute of a recording, float32 [samples], in which the loudest sound is that lasts."""

    def loudness_db(samples: Floats) -> float:
        lasting = round(_LASTS_S / _FRAME_S)
        return float(np.sort(np.append([FLOOR_DB] * lasting, levels_db(samples, rate_hz)))[-lasting])

    best, loudest_db, length_s = np.zeros(0, np.float32), -math.inf, 0.0
    for number, minute in enumerate(_minutes(path, rate_hz)):
        if number:  # a file of a minute or less is not opened again for its length
            length_s = length_s or whole_s(path)
        advance(min(1.0, number * (LONGEST_S - _OVERLAP_S) / length_s) if number else 0.0)
        if (loudness := loudness_db(minute)) > loudest_db:
            best, loudest_db = minute, loudness
    if not len(best):
        raise RecordingError(f"{path} holds no sound at all: record it again")
    return best


def _minutes(path: Path, rate_hz: int) -> Iterator[Floats]:
    """Yield a recording by the minute, float32 [samples], each with the end of the one before; the last is shorter."""
    length, overlap = LONGEST_S * rate_hz, _OVERLAP_S * rate_hz
    waiting: list[Floats] = []
    for block in read_blocks(path, rate_hz):
        waiting.append(block)
        while sum(map(len, waiting)) >= length:
            minute = np.concatenate(waiting)
            waiting = [minute[length - overlap :].copy()]
            yield minute[:length]
    if waiting:
        yield np.concatenate(waiting)


def sounding_stretch(samples: Floats, settings: FeatureSettings) -> Floats:
    """Return the clip-long stretch of the loudest sound, float32 [samples]: of one that lasts, where there is one.

    What is said for longer is returned whole.

    A pop of some hundredths of a second may be louder than a word. Its loudness is counted only as far as so short a
    part of the recording surpasses all others; where nothing else sounds, it is the sound itself.
    """
    rate = settings.sample_rate_hz
    frame = max(1, round(_FRAME_S * rate))
    power = np.square(samples[: len(samples) // frame * frame].reshape(-1, frame), dtype=np.float64).mean(axis=1)
    lasting = round(_LASTS_S / _FRAME_S)
    if len(samples) <= settings.clip_samples or len(power) <= 2 * lasting:
        return loudest_stretch(samples, settings)
    cap = float(np.sort(power)[-lasting])
    if cap < _ABOVE_ROOM * float(np.median(power)):
        return loudest_stretch(samples, settings)
    quieter = np.repeat(np.sqrt(np.minimum(1.0, cap / np.maximum(power, 1e-12))), frame).astype(np.float32)
    tamed = samples.copy()
    tamed[: len(quieter)] *= quieter
    begin, end = whole_stretch(tamed, settings)
    return samples[begin:end]
