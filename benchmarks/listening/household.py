"""Hours of a household in which taught sounds, other sounds and talk are heard.

`--data` names any folder of recordings ``<label>/<source>_*``. Some of its labels are taught by takes of as many
sources. The other sources of these labels are played among sounds of all other labels, in synthesised dialogue with
recorded backgrounds. With `--takes 0` labels are built-in alone. A miss is a taught sound without an
event until two seconds after it ended; every other event is a false accept, also a second one of the same sound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import BenchmarkError, Command, add_knows, data_folder, said
from benchmarks.listening.dialogue import dialogue
from benchmarks.listening.front_ends import taught_device
from benchmarks.listening.material import RATE_HZ, WORD_DB, Half, by_speaker, loud_rms, recordings_in, rms
from benchmarks.listening.measurement import THRESHOLDS, Heard, Listened, listen
from edge_client.audio.recordings import read_recording
from edge_client.daemon.listening_loop import load_listening
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.arrays import Floats

SNRS_DB = (20.0, 10.0, 5.0)
_PAUSE_S = (6.0, 20.0)  # from the end of a sound to the next
_TAUGHT_SHARE = 0.4  # of the sounds
_LATE_S = 2.0
_LOUDEST_S = 5.0  # a longer recording is cut


@dataclass(frozen=True)
class Sound:
    """A sound in the stream: its label, None for one that nobody taught; begin and end, s."""

    label: str | None
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Household:
    """The recordings of a trial."""

    taught: dict[str, list[Path]]  # takes by label
    later: dict[str, list[Path]]  # other sources of the taught labels
    others: list[Path]  # of all other labels
    noise: tuple[Floats, ...]  # backgrounds, of which the first half of each is the device's room


def deal(data: Path, labels: Sequence[str], takes: int, rng: np.random.Generator) -> Household:
    """Deal out recordings by source. Raises BenchmarkError: some are missing, or a label has too few sources."""
    taught, later = {}, {}
    for label in labels:
        sources = by_speaker(recordings_in(data / label))
        if len(sources) <= takes:
            raise BenchmarkError(f"{data / label} has {len(sources)} sources; {takes} teach, and others are played")
        order = rng.permutation(sorted(sources))
        taught[label] = [sources[source][0] for source in order[:takes]]
        later[label] = [path for source in order[takes:] for path in sources[source]]
    others = [path for folder in sorted(data.iterdir()) if folder.name not in labels for path in recordings_in(folder)]
    noises = recordings_in(data_folder() / "gsc_background_noise")
    if not others or not noises:
        raise BenchmarkError(
            f"{data} has no other labels, or {data_folder()} no gsc_background_noise; set AURICLE_DATA"
        )
    return Household(taught, later, others, tuple(read_recording(path, RATE_HZ) for path in noises))


def make_stream(household: Household, snr_db: float, hours: float, seed: int) -> tuple[Floats, list[Sound]]:
    """Return the stream, float32 [samples], and its sounds in order of time.

    ``snr_db`` is the level of a sound above that of dialogue and background together.
    """
    half = Half((), tuple(noise[len(noise) // 2 :] for noise in household.noise))
    stream = np.concatenate(list(dialogue(half, hours, tuple(household.taught), seed)))
    stream *= 10 ** ((WORD_DB - snr_db) / 20) / rms(stream)
    rng, at_s = np.random.default_rng([seed, 1]), _PAUSE_S[1]
    sounds: list[Sound] = []
    labels = sorted(household.taught)
    while True:
        label = str(rng.choice(labels)) if rng.random() < _TAUGHT_SHARE else None
        paths = household.others if label is None else household.later[label]
        samples = read_recording(paths[rng.integers(len(paths))], RATE_HZ)[: round(_LOUDEST_S * RATE_HZ)]
        end_s = at_s + len(samples) / RATE_HZ
        if end_s + _LATE_S > len(stream) / RATE_HZ:
            return np.clip(stream, -1.0, 1.0), sounds
        start = round(at_s * RATE_HZ)
        stream[start : start + len(samples)] += samples * np.float32(10 ** (WORD_DB / 20) / loud_rms(samples))
        sounds.append(Sound(label, at_s, end_s))
        at_s = end_s + float(rng.uniform(*_PAUSE_S))


def counts(sounds: Sequence[Sound], heard: Sequence[Heard]) -> tuple[Counter[str], Counter[str], int]:
    """Return taught sounds by label, those that were missed, and the number of false accepts."""
    free = set(range(len(heard)))
    played: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for sound in sounds:
        if sound.label is None:
            continue
        played[sound.label] += 1
        own = [
            number
            for number in free
            if heard[number].label == sound.label and sound.begin_s <= heard[number].at_s <= sound.end_s + _LATE_S
        ]
        if own:
            free.remove(min(own))
        else:
            missed[sound.label] += 1
    return played, missed, len(free)


def measure(name: str, household: Household, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Teach a device, let it listen at every ratio, print lines, and return the figures."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        room = (noise[: len(noise) // 2] for noise in household.noise)
        config = taught_device(Path(place), find_bundle(name), household.taught, room, dict(chosen.knows))
        loaded = load_listening(config)
        for snr_db in SNRS_DB:
            stream, sounds = make_stream(household, snr_db, chosen.hours, chosen.seed)
            found = listen(loaded, [stream], config.detector)
            rows.append(said({"front_end": Path(name).stem, "snr_db": snr_db, **_row(found, sounds)}))
    return rows


def once_an_hour(found: Listened, sounds: Sequence[Sound]) -> Floats:
    """Return each label's lowest threshold at which it makes at most one false accept an hour, float32 [labels]."""
    chosen, heard = np.ones(len(found.labels), np.float32), found.at_thresholds
    for number, label in enumerate(found.labels):
        own = [sound for sound in sounds if sound.label == label]
        for value, events in zip(reversed(THRESHOLDS), reversed(heard), strict=True):
            _, _, false = counts(own, [one for one in events if one.label == label])
            if false > found.seconds / 3600:
                break
            chosen[number] = value
    return chosen


def _row(found: Listened, sounds: Sequence[Sound]) -> dict[str, Any]:
    played, missed, false = counts(sounds, found.heard)
    _, rarely, _ = counts(sounds, found.at(once_an_hour(found, sounds)))

    def percent(one: Counter[str]) -> float:
        return round(100 * one.total() / max(1, played.total()), 1)

    return {
        "sounds": played.total(),
        "false_accepts_per_hour": round(false / (found.seconds / 3600), 2),
        "miss_percent": percent(missed),
        "miss_percent_at_one_accept_per_label": percent(rarely),
        "real_time_factor": round(found.spent_s / found.seconds, 5),
    }


def main() -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.listening.household", __doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="recordings <label>/<source>_*")
    parser.add_argument("--labels", nargs="+", required=True, metavar="LABEL", help="which are taught")
    parser.add_argument("--takes", type=int, default=5, help="of each label, from as many sources (%(default)s)")
    add_knows(parser)
    parser.add_argument("--front-ends", nargs="+", default=["base", "sounds", "sounds_2s"], metavar="NAME|FILE")
    parser.add_argument("--hours", type=float, default=10.0, help="at each ratio (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)

    def work(chosen: argparse.Namespace) -> object:
        household = deal(chosen.data, chosen.labels, chosen.takes, np.random.default_rng(chosen.seed))
        return [row for name in chosen.front_ends for row in measure(name, household, chosen)]

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
