"""What a device gains by taking part: the model that it listens with, alone, with public labels, and under every plan.

- embeddings: forty devices with one pretrained front end learn from 40 clips each of Speech Commands' test speakers,
  whom no pretraining heard; in a second fleet a fifth of them was taught two words that nobody else knows. On a front
  end that had these words in its pretraining, such as base, there is no second fleet.
- corrections: ten devices, one or three of which deny that a sound is a word (benchmarks/gain/corrections.py, which has
  figures of its own).

Every figure is a mean over devices and seeds, in per cent: of clips of a device's own people that it did not learn
from, of people whom nobody knows, and of these people's clips of words that the device has no clip of. A device is
worse than alone where fewer of its own people's clips are recognised; the figure is devices of a fleet. Beyond chance:
a sign test of the clips on which the two differ has p < 0.05. Refused: devices that keep their model. ``null``: not
measured.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bundles import build_bundles
from benchmarks.command import ROOT, Command, recordings, said
from benchmarks.gain import corrections
from benchmarks.gain.deal import Fleet, deal, read_words
from benchmarks.gain.heads import ALONE, PLANS, EmbeddingFleet, Judged
from fleet_protocol.arrays import Bools
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle

EMBEDDINGS, CORRECTIONS = FLEETS = ("embeddings", "corrections")
OF_EMBEDDINGS = (Fleet("ten words"), Fleet("two new words", new=("stop", "go")))
FOLDER = ROOT / "build" / "gain"
_BEYOND_CHANCE = 0.05


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.gain", __doc__)
    parser.add_argument("--fleets", nargs="+", default=list(FLEETS), choices=list(FLEETS), help="some of them")
    parser.add_argument(
        "--front-end", default="base", metavar="NAME|FILE", help="of embeddings: base, or a file NAME.frontend (base)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="fleets (1 2 3); choose with 100 up")

    def work(chosen: argparse.Namespace) -> object:
        found = {
            EMBEDDINGS: lambda: on_embeddings(chosen.front_end, recordings("gsc_v2_test"), chosen.seeds),
            CORRECTIONS: lambda: correcting(recordings("gsc_v2_test"), chosen.seeds),
        }
        return [row for name in chosen.fleets for row in found[name]()]

    return parser.run(work)


def on_embeddings(front_end: str, data: Path, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of an embedding front end, and print each."""
    folder = FOLDER / Path(front_end).stem
    build_bundles(folder, ["linear"], "--features", front_end)
    bundle = read_bundle(folder / "linear.auricle")
    words = read_words(data, bundle.manifest.feature_settings, FOLDER)
    statistics = bundle.manifest.embedding_statistics
    assert statistics is not None
    for fleet in OF_EMBEDDINGS:
        if set(fleet.new) & set(statistics.words):
            continue  # the pretraining had these words
        fleets = [EmbeddingFleet(bundle, words, deal(fleet, words.words, words.speakers, seed), seed) for seed in seeds]
        alone = [[found.own for found in one.judged(ALONE)] for one in fleets]
        for plan in PLANS:
            judged = [list(one.judged(plan)) for one in fleets]
            yield _row(fleet.name, Path(front_end).stem, plan, judged, alone)


def correcting(data: Path, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of fleets whose owners correct a word, or lie, and print each."""
    bundle = read_bundle(find_bundle("base"))
    words = read_words(data, bundle.manifest.feature_settings, FOLDER)
    dealt = [deal(corrections.FLEET, words.words, words.speakers, seed) for seed in seeds]
    fleets = [corrections.CorrectedFleet(bundle, words, *one) for one in zip(dealt, seeds, strict=True)]
    for plan in corrections.PLANS:
        judged = [found for one in fleets for found in one.judged(plan)]
        shares = {name: [100 * float(getattr(one, name).mean()) for one in judged] for name in corrections.FIGURES}
        row = {name: round(_mean(values), 1) for name, values in shares.items()}
        kept = round(sum(one.kept for one in judged) / len(seeds), 1)
        yield said({"fleet": corrections.FLEET.name, "plan": plan, **row, "kept": kept})


def _row(fleet: str, front_end: str, plan: str, judged: list[list[Judged]], alone: list[list[Bools]]) -> dict[str, Any]:
    """Return and print a row: means over devices and seeds; a device's number without clips does not count."""
    pairs = [
        (before, now.own) for of_seed in zip(alone, judged, strict=True) for before, now in zip(*of_seed, strict=True)
    ]
    every = [found for of_seed in judged for found in of_seed]
    shares = {
        name: _mean([100 * float(clips.mean()) if len(clips := getattr(found, name)) else np.nan for found in every])
        for name in ("own", "strangers", "never_heard")
    }
    counts = {
        "worse_than_alone": sum(int(now.sum()) < int(before.sum()) for before, now in pairs),
        "worse_beyond_chance": sum(chance_of_loss(before, now) < _BEYOND_CHANCE for before, now in pairs),
        "refused": sum(found.kept_own for found in every),
    }
    figures = shares | {name: count / len(judged) for name, count in counts.items()}
    rounded = {name: None if np.isnan(value) else round(value, 1) for name, value in figures.items()}
    return said({"fleet": fleet, "front_end": front_end, "plan": plan, **rounded})


def chance_of_loss(before: Bools, after: Bools) -> float:
    """Return how likely so many clips, or more, are lost of those on which two equally good models differ."""
    lost, differ = int((before & ~after).sum()), int((before != after).sum())
    return float(sum(math.comb(differ, count) for count in range(lost, differ + 1)) / 2**differ)


def _mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


if __name__ == "__main__":
    sys.exit(main())
