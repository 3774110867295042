"""Read speech whose words an aligner has marked: long recordings, as one log-mel picture, and where each word is."""

from __future__ import annotations

import collections
import gzip
import hashlib
import itertools
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import SUFFIXES, read_recording
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.feature_settings import LogMelSettings
from fleet_protocol.bundle.ready_bundles import DAMAGED
from fleet_protocol.numbers.arrays import Floats
from model_export.errors import CorpusError
from model_export.pretraining.corpus import SETTINGS
from model_export.pretraining.pictures import FRAMES, to_pixels

_SHORTEST = 17  # frames that a word takes in the middle; shorter ones (the, a, of) have hardly a shape of their own
_FEWEST = 2  # times that a word is said
_APART, _FREQUENT = 2, 50  # frames from a phone to the next of a pair, at most; times that a pair is said, at least
_PEAK = 0.5  # of every recording
_HOP = SETTINGS.sample_rate_hz // 100  # samples from frame to frame
_GAP, _QUIET_PERCENT = 60, 5  # frames between recordings, as quiet as this percentage of a recording's


@dataclass(frozen=True)
class ReadSpeech:
    """Recordings, one behind the other."""

    pixels: NDArray[np.uint8]  # [frames, 40]
    words: NDArray[np.str_]  # the word of every mark
    marks: NDArray[np.int64]  # its first and last frame, [marks, 2]
    # The phone of every frame, and the pair of phones that meets there: numbers from 0, or -1, [frames]; None where no
    # phone is marked
    phones: NDArray[np.int32] | None = None
    pairs: NDArray[np.int32] | None = None

    def digest(self) -> str:
        """Return the SHA-256 of words, marks, pixels and phones, in hexadecimal digits."""
        phones = [found.tobytes() for found in (self.phones, self.pairs) if found is not None]
        parts = ("\n".join(self.words).encode(), self.marks.tobytes(), self.pixels.tobytes(), *phones)
        return hashlib.sha256(b"\n".join(parts)).hexdigest()


def read(
    marks: Path,
    recordings: Path,
    speakers: Collection[str],
    words: Collection[str],
    settings: LogMelSettings = SETTINGS,
) -> ReadSpeech:
    """Read a folder's recordings, at any depth, and where their words are, without those of some speakers, some words,
    and words that are short or said once.

    ``marks``: JSON, packed by gzip where its suffix is ``.gz``: ``[{"recording": stem of a file, "speaker": ..,
    "words": [[word, first frame, last frame], ..], "phones": as many of these as are known, or none}, ..]``, in frames
    of 10 ms. ``settings``: of :func:`model_export.pretraining.corpus.settings_of`. Raises CorpusError: they cannot be
    read, name a recording that is missing, or leave no word; RecordingError: a recording cannot be read.
    """
    try:
        lines = [line for line in _lines(marks) if line["speaker"] not in speakers]
        lengths = collections.defaultdict(list)
        for line in lines:
            for word, first, last in line["words"]:
                lengths[word].append(last - first + 1)
        phones = [
            [(str(phone), int(first), int(last)) for phone, first, last in line.get("phones", ())] for line in lines
        ]
        named = {line["recording"] for line in lines}
    except DAMAGED as error:
        raise CorpusError(
            f"{marks} has no marks of words ({error!r}); docs/pretraining.md says what it holds"
        ) from error
    paths = {path.stem: path for path in recordings.rglob("*") if path.suffix.lower() in SUFFIXES}
    if missing := sorted(named - set(paths)):
        raise CorpusError(f"{marks} names {missing[0]!r}, which {recordings} lacks")
    wanted = {word for word, found in lengths.items() if len(found) >= _FEWEST and np.median(found) >= _SHORTEST}
    said = ((paths[line["recording"]], line["words"]) for line in lines)
    found, begins = _joined(said, wanted - set(words), marks, settings)
    return _with_phones(found, phones, begins) if any(phones) else found


def _lines(marks: Path) -> list[dict[str, Any]]:
    opened = gzip.open if marks.suffix == ".gz" else open
    with opened(marks, "rt", encoding="utf-8") as file:
        return list(json.load(file))


def _joined(
    recordings: Iterable[tuple[Path, list[Any]]], wanted: set[str], marks: Path, settings: LogMelSettings
) -> tuple[ReadSpeech, list[int]]:
    """Return the recordings, one behind the other, and where each begins."""
    pixels, words, places, begins, begin = [], [], [], list[int](), 0
    for path, said in recordings:
        picture = to_pixels(_log_mel(read_recording(path, settings.sample_rate_hz), settings))
        begins.append(begin)
        quiet = np.percentile(picture, _QUIET_PERCENT, axis=0).astype(np.uint8)
        pixels += [picture, np.tile(quiet, (_GAP, 1))]
        for word, first, last in said:
            if word in wanted:
                words.append(word)
                places.append((begin + first, begin + last))
        begin += len(picture) + _GAP
    if not words or begin < FRAMES:
        raise CorpusError(f"{marks} marks no word of {10 * _SHORTEST} ms that is said twice")
    return ReadSpeech(np.concatenate(pixels), np.array(words), np.array(places)), begins


def _with_phones(speech: ReadSpeech, marked: list[list[tuple[str, int, int]]], begins: list[int]) -> ReadSpeech:
    """Return read speech with the phones that are marked in each recording, and their frequent pairs."""
    names = {phone: number for number, phone in enumerate(sorted({phone for said in marked for phone, _, _ in said}))}
    pairs = [
        [(a, b, at) for (a, _, end), (b, at, _) in itertools.pairwise(said) if at <= end + _APART] for said in marked
    ]
    counts = collections.Counter((a, b) for said in pairs for a, b, _ in said)
    often = sorted(pair for pair, count in counts.items() if count >= _FREQUENT)
    frequent = {pair: number for number, pair in enumerate(often)}
    phones, meetings = (np.full(len(speech.pixels), -1, np.int32) for _ in range(2))
    for begin, said, met in zip(begins, marked, pairs, strict=True):
        for phone, first, last in said:
            phones[begin + first : begin + last + 1] = names[phone]
        for a, b, at in met:
            meetings[begin + at : begin + at + 1] = frequent.get((a, b), -1)
    return replace(speech, phones=phones, pairs=meetings)


def _log_mel(samples: Floats, settings: LogMelSettings) -> Floats:
    """Return ln(power + 1e-6) of a recording, float32 [frames, bands], whole seconds of frames: its end is silence."""
    step = FRAMES * _HOP
    padded = np.pad(samples * (_PEAK / max(np.abs(samples).max(), 1e-6)), (0, step + SETTINGS.clip_samples))
    clips = np.lib.stride_tricks.sliding_window_view(padded, SETTINGS.clip_samples)[: len(samples) : step]
    return np.concatenate(np.asarray(open_front_end(settings)(clips), np.float32))[: len(samples) // _HOP + 1]
