"""Recordings of spoken words to pretrain a front end on, from folders of public collections.

`python -m benchmarks.spoken_words SOURCES FOLDER` writes ``FOLDER/<word>/<speaker>_nohash_<n>.wav``, a corpus for
`auricle-export pretrain --data`. docs/pretraining.md names the collections, their licences and the folders of SOURCES.
Speakers of Speech Commands' official test set are left out. So are clips that ``--pictures`` has already. Seconds of
connected speech go to ``FOLDER/_speech_``.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import Command
from edge_client.audio.recordings import encode_wave, loudest_stretch, read_recording
from edge_client.errors import RecordingError
from fleet_protocol.numbers.arrays import Floats
from model_export.pretraining.corpus import SETTINGS, SPEECH
from model_export.pretraining.pictures import picture_paths

# Folders of Speech Commands' layout, <word>/<speaker>_nohash_<n>.wav.
_COMMANDS = ("snoring_detection/Snoring_Dataset_@16000", "dead_simple/data")
_WAKE_WORDS = "wake_words/audio"  # <word>/<recording>
_SPEECH_20 = "dspspeech/speech_data"  # <speaker>/<speaker>-<number of the word>-<n>.wav
_SPEECH_20_WORDS = (
    *("shuzi", "yuyin", "yuyan", "shibie", "zhongguo", "zonggong", "beijing", "beijing_4", "shanghai", "shanghang"),
    *("fudan", "fandian", "speech", "speaker", "signal", "process", "print", "open", "close", "project"),
)
_CONNECTED = ("orders/data/speech/clean", "resemblyzer/audio_data")  # recordings at any depth
_LIBRISPEECH = re.compile(r"\d+-\d+-\d+$")
_NAME = re.compile(r"(?P<speaker>[0-9a-f]{8})_nohash_(?P<take>\d+)$")
_TEST_PERCENT = (10, 20)
_MOST = 2**27 - 1  # the largest number that Speech Commands maps to per cent
_QUIET = 0.25  # a second of speech whose root mean square is less than this share of the loudest is left out


def of_test_set(speaker: str) -> bool:
    """Return whether Speech Commands v2 has a speaker in its test set: Warden 2018, section 7."""
    number = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16) % (_MOST + 1)
    return _TEST_PERCENT[0] <= number * 100 / _MOST < _TEST_PERCENT[1]


def _clips(sources: Path, known: set[tuple[str, str]]) -> Iterator[tuple[Path, str, str]]:
    """Yield recordings of one word each: file, word, name of the clip."""
    for folder in _COMMANDS:
        for path in sorted((sources / folder).glob("*/*.wav")):
            name, word = _NAME.match(path.stem), path.parent.name
            if name and not of_test_set(name["speaker"]) and (word, path.stem) not in known:
                yield path, word, path.stem
    for path in sorted((sources / _SPEECH_20).glob("*/*.wav")):
        speaker, word, take = path.stem.split("-")
        yield path, _SPEECH_20_WORDS[int(word)], f"{speaker}_{take}"
    for path in sorted((sources / _WAKE_WORDS).glob("*/*.*")):
        yield path, path.parent.name.replace(" ", "_"), f"{path.stem}_0"


def _connected(sources: Path) -> Iterator[tuple[Path, str]]:
    """Yield recordings of connected speech: file, and the speaker, who is the recording where nobody says who."""
    orders, books = (sources / folder for folder in _CONNECTED)
    for path in sorted(orders.rglob("*.wav")):
        yield path, path.stem
    for path in sorted(books.rglob("*.flac")):
        if _LIBRISPEECH.match(path.stem):
            yield path, path.stem


def _seconds(samples: Floats) -> Floats:
    """Return the seconds in which somebody speaks, float32 [seconds, samples]."""
    size = SETTINGS.clip_samples
    parts = samples[: len(samples) // size * size].reshape(-1, size)
    loud = np.sqrt((parts**2).mean(axis=1))
    return parts[loud >= _QUIET * loud.max()] if len(parts) else parts


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the corpus; return the exit status."""
    parser = Command("benchmarks.spoken_words", __doc__)
    parser.add_argument("sources", type=Path, help="folder that holds the collections")
    parser.add_argument("folder", type=Path, help="folder that gets the corpus")
    parser.add_argument("--pictures", type=Path, help="archive of log-mel pictures whose clips are left out")
    return parser.run(work, arguments)


def work(chosen: argparse.Namespace) -> None:
    """Write the recordings, and print how many there are of each word."""
    known = set()
    for picture in picture_paths(chosen.pictures) if chosen.pictures else ():
        name, word = picture.name.split(".")[:2]
        known.add((word, name))
    rate, unreadable = SETTINGS.sample_rate_hz, 0
    for path, word, name in _clips(chosen.sources, known):
        try:
            samples = read_recording(path, rate)
        except RecordingError:
            unreadable += 1
            continue
        _write(chosen.folder / word / f"{name}.wav", loudest_stretch(samples, SETTINGS))
    for path, speaker in _connected(chosen.sources):
        for number, second in enumerate(_seconds(read_recording(path, rate))):
            _write(chosen.folder / SPEECH / f"{speaker}_{number}.wav", second)
    for folder in sorted(chosen.folder.glob("*/")):
        print(f"{sum(1 for _ in folder.iterdir()):>6} {folder.name}")
    print(f"{unreadable} recordings could not be read")


def _write(path: Path, samples: Floats) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_wave(samples, SETTINGS.sample_rate_hz))


if __name__ == "__main__":
    sys.exit(main())
