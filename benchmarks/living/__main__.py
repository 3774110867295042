"""`python -m benchmarks.living`: what a device makes of its room in a week in which nobody answers anything.

Each device is taught four words of Speech Commands by ten takes of each, by ten people, and lives in a room of its own:
its backgrounds, its reverberation, its household sounds, its words. After every day it has the thresholds that follow
from what it heard. It is measured on the first day, on the last, and after a day in another device's room: misses
of taught words by people whom it never heard, at 20, 10 and 5 dB, and false accepts per hour in hours without a taught
word, at thresholds for 0.5, 1 and 2 false accepts an hour for each label. Defaults were chosen in other rooms, with
other people and backgrounds (`--tuning`).

With `--household` the words are said by a few people who live in the room, often, and measured by other recordings of
the same people.

With `--questions` each device lives a second time and asks its owner: at most so many questions a day, which he answers
in the evening, 5 % of them wrongly; every fifth owner never answers.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import BenchmarkError, Command, data_folder, said
from benchmarks.listening.__main__ import SNRS_DB
from benchmarks.listening.front_ends import taught_device
from benchmarks.listening.material import KNOWN, Clip, load_material
from benchmarks.living.owners import Answers, Owner
from benchmarks.living.rooms import Part, Room, day_parts, open_rooms, said_words, sound_of
from benchmarks.living.weeks import PROMISES, Life, Measured, measure
from edge_client.config.sections import DetectorConfig
from edge_client.room.memory import layout_of
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import EmbeddingSettings
from fleet_protocol.ready_bundles import find_bundle

DAYS = 7
# After which days the night is played, too: it takes three trainings.
_NIGHTS = (1, 6)
# Days of sound that is made for a room, one after the other, to live through again and again, and to be measured on.
_LIVED, _MEASURED = 3, 3
_TAKES = 10
# What `auricle-edge record` hears of a room before the first take: seconds, and level, dB full scale.
_ROOM_S, _ROOM_DB = 3.0, -50.0
# How much more than was promised is still kept.
KEPT = 1.5
# Of so many owners one never answers.
_SILENT = 5
# Points of misses by which a device must be worse, by a sign test of its words, to count as worse.
_CHANCE = 0.05


def _taught(folder: Path, bundle: Path, training: Sequence[Clip], room: Room, seed: int, questions: int = 0) -> Life:
    """Teach a device in a room; it asks so many questions a day."""
    rng = np.random.default_rng([seed, room.number, 5])
    takes = {}
    for label in KNOWN:
        own = [clip.path for clip in training if clip.label == label]
        takes[label] = [own[index] for index in rng.choice(len(own), _TAKES, replace=False)]
    heard: Floats = room.half.backgrounds[0][: round(_ROOM_S * 16_000)]
    level = 10 ** (_ROOM_DB / 20) / max(1e-6, float(np.sqrt(np.mean(np.square(heard)))))
    config = taught_device(folder, bundle, takes, [np.asarray(level * heard, np.float32)])
    layout = layout_of(read_bundle(bundle).manifest, DetectorConfig())
    assert layout is not None
    answers = room.number % _SILENT != _SILENT - 1
    owner = Owner(config, seed + room.number, answers=answers, per_day=questions) if questions else None
    return Life(config, layout, seed, owner)


def _summary(day: int | str, found: Sequence[Measured], before: Sequence[Measured] | None) -> dict[str, Any]:
    """Return a day's figures over all devices."""
    rows: list[dict[str, Any]] = []
    for promise in PROMISES:
        rates = [{label: count / one.hours for label, count in one.accepts[promise].items()} for one in found]
        misses = {
            f"{snr:g}": round(100 * float(np.mean([np.mean(one.missed[promise][snr]) for one in found])), 1)
            for snr in SNRS_DB
        }
        totals = [sum(rate.values()) for rate in rates]
        every = [value for rate in rates for value in rate.values()]
        rows.append(
            {
                "promised": promise,
                "misses_percent": misses,
                "false_accepts_per_hour": round(float(np.mean(every)), 2),  # of one label
                "worst_label": round(max(every), 2),
                "devices_kept": sum(total <= KEPT * promise * len(KNOWN) for total in totals),
                "labels_kept_percent": round(100 * float(np.mean([value <= KEPT * promise for value in every])), 1),
            }
        )
    if before is not None:
        for row, promise in zip(rows, PROMISES, strict=True):
            row["worse"] = sum(_is_worse(a, b, promise) for a, b in zip(before, found, strict=True))
    return {"day": day, "devices": len(found), "hours": round(sum(one.hours for one in found), 1), "promises": rows}


def _is_worse(before: Measured, after: Measured, promise: float) -> bool:
    """Tell whether more words are missed than before, beyond chance, by the words of which one of both was missed."""
    pairs = [
        (was, now)
        for snr in SNRS_DB
        for was, now in zip(before.missed[promise][snr], after.missed[promise][snr], strict=True)
        if was != now
    ]
    worse = sum(now for _, now in pairs)
    tail = sum(math.comb(len(pairs), k) for k in range(worse, len(pairs) + 1)) / 2 ** len(pairs)
    return bool(pairs) and tail < _CHANCE


def _moments(days: int) -> dict[int | str, list[Measured]]:
    return {0: [], days: [], "moved": [], "moved, a day later": []}


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.living", __doc__)
    parser.add_argument("--devices", type=int, default=5, help="each in a room of its own (%(default)s)")
    parser.add_argument("--rooms", type=int, default=5, help="rooms among which backgrounds are dealt (%(default)s)")
    parser.add_argument("--tuning", action="store_true", help="live in the rooms in which defaults were chosen")
    parser.add_argument("--thresholds-alone", action="store_true", help="play no night: no head learns the room")
    parser.add_argument("--household", type=int, default=0, metavar="N", help="people of a room; 0: ever new ones (0)")
    parser.add_argument("--questions", type=int, default=0, metavar="N", help="live again, and ask so many a day (0)")
    parser.add_argument("--days", type=int, default=DAYS, help="days that are lived (%(default)s)")
    parser.add_argument("--bundle", default="base", metavar="NAME|FILE", help="ready bundle or file (base)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep embeddings here; the next run takes them")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--seed", type=int, default=0)
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Let every device live, print its lines, and return the figures."""
    material, bundle = load_material(options.data, options.seed), find_bundle(options.bundle)
    half = material.tuning if options.tuning else material.report
    seed = options.seed + (1000 if options.tuning else 0)
    rooms = open_rooms(half, max(options.rooms, options.devices), seed, options.household)[: options.devices]
    with tempfile.TemporaryDirectory() as place:
        cache = options.cache or Path(place) / "cache"
        nights = () if options.thresholds_alone else [day for day in range(options.days) if day % DAYS in _NIGHTS]

        def lives(questions: int) -> tuple[dict[str, Any], list[Life]]:
            moments, found = _moments(options.days), []
            for room in rooms:
                folder = Path(place) / f"{room.number}-{questions}"
                life = _taught(folder, bundle, material.training, room, seed, questions)
                other = rooms[(room.number + 1) % len(rooms)]
                _live(life, room, other, cache, bundle, nights, moments, options.days)
                found.append(life)
            days = [_summary(day, one, moments[0] if day == options.days else None) for day, one in moments.items()]
            return {"days": days, "heads_with_room": sum(life.learned_room for life in found)}, found

        without, _ = lives(0)
        _say(without)
        if not options.questions:
            return without
        asking, found = lives(options.questions)
        _say(asking)
    return {"questions": asking | _asked([life.owner.found for life in found if life.owner]), "without": without}


def _say(result: dict[str, Any]) -> None:
    for day in result["days"]:
        for row in day["promises"]:
            said({"day": day["day"]} | row)
            said({f"misses at {snr} dB": value for snr, value in row["misses_percent"].items()})


def _asked(found: Sequence[Answers]) -> dict[str, int]:
    """Return the counts of all owners' answers."""
    names = ("asked", "answered", "wrong", "useful", "yes")
    counts = {name: sum(getattr(one, name) for one in found) for name in names}
    said(dict(counts))
    return counts


def _live(
    life: Life,
    room: Room,
    other: Room,
    cache: Path,
    bundle: Path,
    nights: Sequence[int],
    moments: dict[int | str, list[Measured]],
    days: int,
) -> None:
    """Let a device live for some days in its room, and then for a day in another one; measure it in between."""
    settings, config = read_bundle(bundle).manifest.feature_settings, DetectorConfig()
    if not isinstance(settings, EmbeddingSettings):
        raise BenchmarkError(f"{bundle} has no front end with one network; take base, words or sounds")

    def parts(where: Room, day: int, *, measured: bool) -> list[Part]:
        return day_parts(where, day, settings, life.layout.hop_s, cache, measured=measured, owner=not measured)

    def figures(where: Room) -> Measured:
        measured = [part for day in range(1, _MEASURED + 1) for part in parts(where, 100 + day, measured=True)]
        words = {snr: said_words(where, snr, settings, life.layout.hop_s, cache) for snr in SNRS_DB}
        return measure(life.now, life.layout, measured, words, config)

    moments[0].append(figures(room))
    for day in range(days):
        lived = day % _LIVED + 1

        def sound(part: Part, lived: int = lived) -> Floats:
            return sound_of(room, part.name, lived, measured=False, owner=True)[0]

        life.hear(day, parts(room, lived, measured=False), night=day in nights, sound=sound)
    moments[days].append(figures(room))
    moments["moved"].append(figures(other))
    life.hear(days, parts(other, 1, measured=False), night=bool(nights))
    moments["moved, a day later"].append(figures(other))


if __name__ == "__main__":
    sys.exit(main())
