"""`python -m benchmarks.own_words`: wake words taught by a few takes of one person, in hours of connected speech.

The form is that of Picovoice's wake-word benchmark: misses of a word at a threshold with so many false alarms, none or
one in ten hours, among read speech and in noise. There a word was trained on thousands of takes, here it is taught by
five. `--words` holds `<word>/<speaker>_*`, words that no front end was pretrained on, and `--speech` recordings of
connected speech without these words. On each device one person teaches each word; another one may teach the next.
Nothing is fetched; docs/results.md names the recordings of its table.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.command import BenchmarkError, Command, data_folder, said
from benchmarks.listening.front_ends import FrontEnd, front_ends, taught_device
from benchmarks.listening.material import Clip, Half, by_speaker, load_material, make_stream
from benchmarks.listening.measurement import THRESHOLDS, Heard, Listened, hits, in_parts
from benchmarks.listening.one_front_end import listen_for_all
from benchmarks.listening.own_words import OTHERS, OWNER, Owner, missed, recordings_by_word, shuffled
from benchmarks.listening.speech import speech_in_noise
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Loaded
from fleet_protocol.numbers.arrays import Floats

if TYPE_CHECKING:
    from benchmarks.openwakeword import OpenWakeWord

CLEAN_DB = 60.0
SNRS_DB = (CLEAN_DB, 10.0)
# False alarms an hour for each word.
RATES = (1.0, 0.1)
# Takes of a word that other people say to one device.
_MOST_OTHERS = 50
_OTHERS_H = 1 / 6  # speech that openWakeWord learns from; it is not listened to


def devices(folder: Path, count: int, takes: int, seed: int) -> list[Owner]:
    """Draw who teaches each word to each device: so many takes of one person, who says his other ones.

    Raises BenchmarkError: nobody has more takes than that of a word.
    """
    rng, found = np.random.default_rng(seed), [Owner({}, []) for _ in range(count)]
    for word, files in recordings_by_word(folder).items():
        by = by_speaker(files)
        if not (able := [speaker for speaker in by if len(by[speaker]) > takes]):
            raise BenchmarkError(f"nobody has more than {takes} takes of {word} in {folder}, <word>/<speaker>_*")
        teachers = shuffled(able, rng)
        for number, device in enumerate(found):
            teacher = teachers[number % len(teachers)]
            own = shuffled(by[teacher], rng)
            others = shuffled([path for path in files if path not in own], rng)[:_MOST_OTHERS]
            here = [*(Clip(word, path, OWNER) for path in own[takes:]), *(Clip(word, path, OTHERS) for path in others)]
            found[number] = Owner({**device.takes, word: own[:takes]}, [*device.said, *here])
    return found


class Taught:
    """Devices that were taught on one front end."""

    def __init__(self, one: FrontEnd, people: Sequence[Owner], room: Sequence[Floats]) -> None:
        """Teach each by its owner's takes, in a room."""
        self.name, self._config, self._all = one.name, DetectorConfig(), list[Loaded]()
        for owner in people:
            with tempfile.TemporaryDirectory() as folder:
                self._all.append(load_listening(taught_device(Path(folder), one.bundle, owner.takes, room)))

    def heard(self, parts: Iterable[Floats]) -> Callable[[int], Listened]:
        """Listen to a stream; return what says what a device's detector makes of it, averaged as it does."""
        of = listen_for_all(self._all[0], parts, self._config)
        return lambda number: of(self._all[number])

    def own(self, number: int, label: str) -> float:
        """Return the threshold that a device listens with."""
        return self._all[number].tails[label].threshold(self._config.false_accepts_per_hour)


def measure(
    one: Taught | OpenWakeWord, people: Sequence[Owner], options: argparse.Namespace, half: Half
) -> list[dict[str, Any]]:
    """Return a row for each ratio of levels, device and word, misses in %."""
    rows = []
    for snr_db in SNRS_DB:
        speech = one.heard(speech_in_noise(options.speech, half, snr_db, options.hours, options.seed))
        for number, owner in enumerate(people):
            rng = np.random.default_rng([options.seed, number])
            stream = make_stream(Half(tuple(owner.said), half.backgrounds), snr_db, math.inf, rng)
            talk, words = speech(number), one.heard(in_parts(stream.samples))(number)
            for label in talk.labels:
                row: dict[str, Any] = {"front_end": one.name, "snr_db": snr_db, "word": label}
                for rate in RATES:
                    found, _ = hits(stream.words, words.at(threshold(talk, label, rate)))
                    shares = {who: missed(stream.words, found, who, label) for who in (OWNER, OTHERS)}
                    row |= {f"{who} at {rate:g}": share for who, share in shares.items() if share is not None}
                if isinstance(one, Taught):
                    alarms = _alarms(talk.at(one.own(number, label)), label)
                    row |= {"alarms an hour by own threshold": alarms / (talk.seconds / 3600)}
                rows.append(said(row))
    return rows


def threshold(talk: Listened, label: str, rate: float) -> float:
    """Return the lowest threshold at which a label is heard at most so often an hour of talk; infinite where at none.

    Scores that are no probabilities are their own thresholds: the largest, each exceeded by 7 % fewer windows.
    """
    allowed, among = rate * talk.seconds / 3600 + 1e-9, THRESHOLDS
    if talk.release == 1:
        scores = np.sort(talk.scores[:, talk.labels.index(label)])[::-1]
        ranks = np.unique((len(scores) * 0.005 * 10 ** -np.arange(0, 5, 0.03)).astype(int))[::-1]
        among = (*map(float, scores[ranks]), float(np.nextafter(scores[0], np.float32(np.inf))))
    heard = talk.at_thresholds if among is THRESHOLDS else talk.at_each(np.array([among], np.float32))
    return next((at for at, events in zip(among, heard, strict=True) if _alarms(events, label) <= allowed), math.inf)


def _alarms(heard: Iterable[Heard], label: str) -> int:
    return sum(event.label == label for event in heard)


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Measure every device on every front end, print the lines, and return means over devices."""
    people = devices(options.words, options.devices, options.takes, options.seed)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        material = load_material(options.data, options.seed)
        chosen = [] if options.openwakeword else front_ends(options.front_ends, Path(folder), options.bundles)
        engines: list[Taught | OpenWakeWord] = [Taught(one, people, material.noise) for one in chosen]
        if options.openwakeword:
            from benchmarks.openwakeword import OpenWakeWord

            talk = functools.partial(speech_in_noise, options.speech, hours=_OTHERS_H, seed=options.seed, last=True)
            engines = [OpenWakeWord(options.openwakeword, people, material.noise, talk)]
        for one in engines:
            rows = measure(one, people, options, material.report)
            for snr_db, word in sorted({(row["snr_db"], row["word"]) for row in rows}):
                same = [row for row in rows if (row["snr_db"], row["word"]) == (snr_db, word)]
                names = [name for name, value in same[0].items() if isinstance(value, float) and name != "snr_db"]
                mean = {name: round(float(np.mean([row[name] for row in same if name in row])), 1) for name in names}
                results.append(said({"mean": one.name, "snr_db": snr_db, "word": word} | mean))
    return {"takes": options.takes, "devices": options.devices, "hours": options.hours, "rows": results}


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.own_words", __doc__)
    parser.add_argument("--words", type=Path, required=True, metavar="DIR", help="recordings, <word>/<speaker>_*")
    parser.add_argument("--speech", type=Path, required=True, metavar="DIR", help="connected speech, at any depth")
    parser.add_argument("--hours", type=float, default=10.0, help="of speech (10)")
    parser.add_argument("--devices", type=int, default=6, help="each word is taught to each by one person (6)")
    parser.add_argument("--takes", type=int, default=5, help="of each word (5)")
    parser.add_argument("--front-ends", nargs="+", default=["words"], metavar="NAME", help="as of benchmarks.listening")
    parser.add_argument("--bundles", type=Path, metavar="DIR", help="take NAME.auricle from here, build none")
    about = "measure openWakeWord's custom verifier instead, by the networks of this checkout"
    parser.add_argument("--openwakeword", type=Path, metavar="DIR", help=about)
    parser.add_argument("--data", type=Path, default=data_folder(), help="backgrounds, as of benchmarks.listening")
    parser.add_argument("--seed", type=int, default=0)
    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
