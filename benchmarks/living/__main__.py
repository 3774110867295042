"""`python -m benchmarks.living`: what a device makes of its room in a week.

Each device is taught four words of Speech Commands by ten takes of each, by ten people, or four everyday sounds of
UrbanSound8K by five recordings of each. It lives in a room: its backgrounds, its reverberation, its household sounds,
its words, a hundred an hour in a busy home, five in a quiet one. After every day it has the thresholds that follow from
what it heard. It is measured on the first day and on others: misses of taught words or sounds by people or sources that
it never heard, at 20, 10 and 5 dB, and false accepts per hour in hours without a taught one, at thresholds for 0.5, 1
and 2 false accepts an hour for each label. Defaults were chosen in other rooms, with other people and backgrounds
(`--tuning`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import Command, data_folder, said
from benchmarks.listening.__main__ import SNRS_DB
from benchmarks.listening.front_ends import taught_device
from benchmarks.listening.material import Clip, load_material, rms
from benchmarks.living.homes import HOMES, TAUGHT, with_sounds
from benchmarks.living.rooms import Part, Room, day_parts, open_rooms, said_words
from benchmarks.living.weeks import DIAL, PROMISES, Life, Measured, measure
from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import pace_of
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, find_bundle
from fleet_protocol.numbers.arrays import Floats

DAYS = 7
# Days of sound that is made for a room, one after the other, to live through again and again, and to be measured on.
_LIVED, _MEASURED = 2, 2
_TAKES, _TAKES_OF_SOUND = 10, 5
# What `auricle-edge record` hears of a room before the first take: seconds, and level, dB full scale.
_ROOM_S, _ROOM_DB = 3.0, -50.0
# How much more than was promised is still kept.
KEPT = 1.5


def _taught(folder: Path, bundle: Path, training: Sequence[Clip], room: Room, number: int, seed: int) -> Life:
    """Teach a device of this number in a room."""
    rng = np.random.default_rng([seed, number, 5])
    takes = {}
    for label in room.taught:
        own = [clip.path for clip in training if clip.label == label]
        count = _TAKES_OF_SOUND if label in TAUGHT else _TAKES
        takes[label] = [own[index] for index in rng.choice(len(own), count, replace=False)]
    heard: Floats = room.half.backgrounds[0][: round(_ROOM_S * 16_000)]
    level = 10 ** (_ROOM_DB / 20) / rms(heard)
    config = taught_device(folder, bundle, takes, [np.asarray(level * heard, np.float32)])
    return Life(config)


def _summary(day: int, found: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return a day's figures over all devices, for each promised rate."""
    rows: list[dict[str, Any]] = []
    about = {"day": day, "devices": len(found), "hours": round(sum(one.hours for one in found), 1)}
    for promise in PROMISES:
        rates = [{label: count / one.hours for label, count in one.accepts[promise].items()} for one in found]
        every = [value for rate in rates for value in rate.values()]
        fair = {f"{snr:g}": _missed_at(found, promise, snr) for snr in SNRS_DB}
        of_a_label = round(float(np.mean(every)), 2)
        kept = sum(sum(rate.values()) <= KEPT * promise * len(rate) for rate in rates)
        own = {f"{snr:g}": round(_missed(found, promise, snr), 1) for snr in SNRS_DB}
        kinds = {
            kind: [round(missed, 1) for snr in SNRS_DB if (missed := _missed(found, promise, snr, kind)) >= 0]
            for kind in ("words", "sounds")
        }
        # Misses in per cent, where all thresholds make as many false accepts.
        row = {"promised": promise, "misses": own, "misses_at_that_rate": fair, "false_accepts_per_hour": of_a_label}
        rows.append(about | row | {"misses_of": kinds, "devices_kept": kept})
    return rows


def _missed_at(found: Sequence[Measured], rate: float, snr: float) -> float | None:
    """Return the words missed, percent, where all devices' promise is such that false accepts come at a rate, or below
    where the lowest thresholds make fewer.

    So days can be compared whose promises were kept unequally well. None where every promise makes more.
    """
    rates, missed = [], []
    for promise in DIAL:
        labels = [count / one.hours for one in found for count in one.accepts[promise].values()]
        rates.append(float(np.mean(labels)))
        missed.append(_missed(found, promise, snr))
    if rates[0] > rate:
        return None
    return round(float(np.interp(rate, np.maximum.accumulate(rates), missed)), 1)


def _missed(found: Sequence[Measured], promise: float, snr: float, kind: str = "") -> float:
    """Return what was missed, percent, at the thresholds of a promise: the mean of labels, perhaps of a kind alone."""
    every = [(label, one) for device in found for label, one in device.missed[promise][snr].items()]
    own = [np.mean(one) for label, one in every if not kind or (kind == "sounds") == (label in TAUGHT)]
    return 100 * float(np.mean(own)) if own else float("nan")


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.living", __doc__)
    parser.add_argument("--devices", type=int, default=20, help="that live in the rooms (%(default)s)")
    parser.add_argument("--rooms", type=int, default=5, help="rooms among which backgrounds are dealt (%(default)s)")
    parser.add_argument("--tuning", action="store_true", help="live in the rooms in which defaults were chosen")
    parser.add_argument("--days", type=int, nargs="+", default=[DAYS], help="after which it is measured (%(default)s)")
    parser.add_argument("--home", choices=sorted(HOMES), default="busy", help="what is heard in it (%(default)s)")
    parser.add_argument("--taught", choices=["words", "sounds", "both"], default="words", help="(%(default)s)")
    parser.add_argument("--bundle", default=FIRST_CHOICE, metavar="NAME|FILE", help="ready, or a file (%(default)s)")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--seed", type=int, default=0)
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Let every device live, print its lines, and return the figures."""
    material, bundle = load_material(options.data, options.seed), find_bundle(options.bundle)
    if options.taught != "words":
        material = with_sounds(material, options.data, options.seed, words=options.taught == "both")
    half = material.tuning if options.tuning else material.report
    seed = options.seed + (1000 if options.tuning else 0)
    rooms = open_rooms(half, options.rooms, seed, HOMES[options.home])
    moments: dict[int, list[Measured]] = {day: [] for day in (0, *options.days)}
    kept = dict[str, Part]()
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.devices):
            room = rooms[number % len(rooms)]
            life = _taught(Path(place) / str(number), bundle, material.training, room, number, seed)
            _live(life, room, kept, bundle, moments)
    rows = [row for day, one in moments.items() for row in _summary(day, one)]
    for row in rows:
        said(row | {f"missed at {snr} dB": value for snr, value in row["misses"].items()})
    return {"days": rows}


def _live(life: Life, room: Room, kept: dict[str, Part], bundle: Path, moments: dict[int, list[Measured]]) -> None:
    """Let a device live for some days in its room; measure it before and afterwards."""
    settings, config = read_bundle(bundle).manifest.feature_settings, DetectorConfig()
    hop_s = pace_of(config, settings).hop_s

    def parts(day: int, *, measured: bool) -> list[Part]:
        return day_parts(room, day, settings, hop_s, kept, measured=measured)

    def figures() -> Measured:
        measured = [part for day in range(1, _MEASURED + 1) for part in parts(100 + day, measured=True)]
        words = {snr: said_words(room, snr, settings, hop_s, kept) for snr in SNRS_DB}
        return measure(life.now, measured, words, config)

    for day in range(max(moments) + 1):
        if day in moments:
            moments[day].append(figures())
        life.hear(day, parts(day % _LIVED + 1, measured=False))


if __name__ == "__main__":
    sys.exit(main())
