"""Read speech whose words an aligner has marked: long recordings, as one log-mel picture, and where each word is."""

from __future__ import annotations

import collections
import gzip
import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import SUFFIXES, read_recording
from edge_client.features.front_end import open_front_end
from fleet_protocol.arrays import Floats
from model_export.errors import CorpusError
from model_export.pretraining.corpus import SETTINGS
from model_export.pretraining.pictures import BANDS, FRAMES, to_pixels

_SHORTEST = 17  # frames that a word takes in the middle; shorter ones (the, a, of) have hardly a shape of their own
_FEWEST = 2  # times that a word is said
_PEAK = 0.5  # of every recording
_HOP = SETTINGS.sample_rate_hz // 100  # samples from frame to frame
_GAP, _QUIET_PERCENT = 60, 5  # frames between recordings, as quiet as this percentage of a recording's


@dataclass(frozen=True)
class ReadSpeech:
    """Recordings, one behind the other."""

    pixels: NDArray[np.uint8]  # [frames, 40]
    words: NDArray[np.str_]  # the word of every mark
    marks: NDArray[np.int64]  # its first and last frame, [marks, 2]

    def digest(self) -> str:
        """Return the SHA-256 of words, marks and pixels, in hexadecimal digits."""
        parts = ("\n".join(self.words).encode(), self.marks.tobytes(), self.pixels.tobytes())
        return hashlib.sha256(b"\n".join(parts)).hexdigest()


def read(marks: Path, recordings: Path, speakers: Collection[str], words: Collection[str]) -> ReadSpeech:
    """Read a folder's recordings, at any depth, and where their words are, without those of some speakers, some words,
    and words that are short or said once.

    ``marks``: JSON, packed by gzip where its suffix is ``.gz``: ``[{"recording": stem of a file, "speaker": ..,
    "words": [[word, first frame, last frame], ..]}, ..]``, in frames of 10 ms. Raises CorpusError: they cannot be read,
    name a recording that is missing, or leave no word; RecordingError: a recording cannot be read.
    """
    try:
        lines = [line for line in _lines(marks) if line["speaker"] not in speakers]
        lengths = collections.defaultdict(list)
        for line in lines:
            for word, first, last in line["words"]:
                lengths[word].append(last - first + 1)
        named = {line["recording"] for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"{marks} has no marks of words ({error!r}); docs/pretraining.md says what it holds"
        ) from error
    paths = {path.stem: path for path in recordings.rglob("*") if path.suffix.lower() in SUFFIXES}
    if missing := sorted(named - set(paths)):
        raise CorpusError(f"{marks} names {missing[0]!r}, which {recordings} lacks")
    wanted = {word for word, found in lengths.items() if len(found) >= _FEWEST and np.median(found) >= _SHORTEST}
    return _joined(((paths[line["recording"]], line["words"]) for line in lines), wanted - set(words), marks)


def _lines(marks: Path) -> list[dict[str, Any]]:
    opened = gzip.open if marks.suffix == ".gz" else open
    with opened(marks, "rt", encoding="utf-8") as file:
        return list(json.load(file))


def _joined(recordings: Iterable[tuple[Path, list[Any]]], wanted: set[str], marks: Path) -> ReadSpeech:
    pixels, words, places, begin = [], [], [], 0
    for path, said in recordings:
        picture = to_pixels(_log_mel(read_recording(path, SETTINGS.sample_rate_hz)))
        quiet = np.percentile(picture, _QUIET_PERCENT, axis=0).astype(np.uint8)
        pixels += [picture, np.tile(quiet, (_GAP, 1))]
        for word, first, last in said:
            if word in wanted:
                words.append(word)
                places.append((begin + first, begin + last))
        begin += len(picture) + _GAP
    if not words or begin < FRAMES:
        raise CorpusError(f"{marks} marks no word of {10 * _SHORTEST} ms that is said twice")
    return ReadSpeech(np.concatenate(pixels), np.array(words), np.array(places))


def _log_mel(samples: Floats) -> Floats:
    """Return ln(power + 1e-6) of a recording, float32 [frames, 40], whole seconds of frames: its end is silence."""
    step = FRAMES * _HOP
    padded = np.pad(samples * (_PEAK / max(np.abs(samples).max(), 1e-6)), (0, step + SETTINGS.clip_samples))
    clips = np.lib.stride_tricks.sliding_window_view(padded, SETTINGS.clip_samples)[: len(samples) : step]
    return np.asarray(open_front_end(SETTINGS)(clips), np.float32).reshape(-1, BANDS)[: len(samples) // _HOP + 1]
