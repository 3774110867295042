"""Class discovery: do reports of new sounds from different devices and architectures find each other?

Every trial trains four devices with disjoint speakers, overlapping label sets and mixed architectures on real Speech
Commands cepstra (20 x 13, from the log-mel archive), 300 clips of each word as in the paper's table 1; each device then
meets one new word, does not say which, and describes it as it would in a round. The aggregator's `discover` says how
many new classes there are and who reported which (Gudur & Perepu 2021, appendix E). No speaker is in two places.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator_server.discovery.clustering import KnownClass, ReportedClass, discover
from edge_client.learning.new_sounds.impressions import Synthesis, synthesise
from edge_client.learning.new_sounds.profiles import profiles
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats, Ints
from fleet_protocol.feature_settings import preset
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_simulator.data.log_mel_archive import features_of_power, pictures, read_pictures
from model_export.pretraining.pictures import mel_power

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ("yes", "no", "up", "down", "left", "right", "on", "off")
NEW = ("stop", "go")
ARCHITECTURES = ("cnn2", "cnn3", "dscnn3", "cnn4")
# Each device knows four words; neighbours share two, as in the paper's table 1.
LABELS = (KNOWN[0:4], KNOWN[2:6], KNOWN[4:8], (*KNOWN[6:8], *KNOWN[0:2]))
CLIPS = 300
PUBLIC_SPEAKERS = 0.3
EPOCHS = 12


@dataclass(frozen=True)
class LogMel:
    """Standardised cepstra of every clip, float32 [clips, frames, coefficients], its label and its speaker."""

    x: Floats
    labels: NDArray[np.str_]
    speakers: NDArray[np.str_]


@dataclass(frozen=True)
class Trial:
    """What the aggregator gets in one trial, and the truth that it does not get."""

    reports: list[ReportedClass]
    known: list[KnownClass]
    public_set: PublicSet
    truth: list[str]


def run_trial(corpus: LogMel, bundles: Path, seed: int, *, shared: bool) -> Trial:
    """Train the devices of one trial; ``shared``: all four meet the same word."""
    rng = np.random.default_rng([seed, int(shared)])
    speakers = rng.permutation(np.unique(corpus.speakers))
    public, private = np.split(speakers, [int(PUBLIC_SPEAKERS * len(speakers))])
    public_set = _public_set(corpus, np.isin(corpus.speakers, public), rng)
    truth = [NEW[seed % 2]] * 4 if shared else [str(word) for word in rng.permutation(NEW * 2)]
    architectures = rng.permutation(ARCHITECTURES)
    reports: list[ReportedClass] = []
    known: list[KnownClass] = []
    for device, word in enumerate(truth):
        own = np.isin(corpus.speakers, private[device :: len(truth)])
        model = ModelRuntime.open(bundles / f"{architectures[device]}.auricle")
        impressions, profiles = _describe(model, corpus, own, (*LABELS[device], word), public_set, rng)
        name = f"device-{device}"
        for slot, label in enumerate(LABELS[device]):
            known.append(KnownClass(name, label, impressions[slot], profiles[slot]))
        reports.append(ReportedClass(name, len(LABELS[device]), None, impressions[-1], profiles[-1]))
    return Trial(reports, known, public_set, truth)


def _draw(corpus: LogMel, among: Bools, label: str, rng: np.random.Generator) -> Ints:
    return rng.choice(np.flatnonzero(among & (corpus.labels == label)), CLIPS, replace=False)


def _public_set(corpus: LogMel, among: Bools, rng: np.random.Generator) -> PublicSet:
    rows = np.concatenate([_draw(corpus, among, label, rng) for label in KNOWN])
    return PublicSet(
        preset("gudur"),
        tuple(ClassInfo(label, label) for label in KNOWN),
        corpus.x[rows],
        np.repeat(np.arange(len(KNOWN)), CLIPS),
        np.zeros(len(rows), np.bool_),
    )


def _describe(
    model: ModelRuntime,
    corpus: LogMel,
    own: Bools,
    labels: tuple[str, ...],
    public_set: PublicSet,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Train a device on its words, the new one joining half way; return impressions and profiles of every word."""
    optimiser = Optimiser(0.02)
    clips = {label: _draw(corpus, own, label, rng) for label in labels}
    for stage in (labels[:-1], labels):
        rows = np.concatenate([clips[label] for label in stage])
        mask = np.zeros(model.manifest.capacity, np.float32)
        mask[: len(stage)] = 1.0
        targets = from_slots(np.repeat(np.arange(len(stage)), CLIPS), model.manifest.capacity)
        for _ in range(EPOCHS):
            moved = [
                np.roll(clip, by, axis=0)
                for clip, by in zip(corpus.x[rows], rng.integers(-2, 3, len(rows)), strict=True)
            ]
            train_epoch(model, np.stack(moved), targets, mask, optimiser, rng)
    slots = list(range(len(labels)))
    impressions = model.normalise(synthesise(model, mask, slots, Synthesis(), rng))
    rows = np.concatenate([clips[label] for label in labels])
    own_embedding, owners = model.embed(corpus.x[rows]), np.repeat(slots, CLIPS)
    return impressions, profiles(model.embed(public_set.features), own_embedding, owners, slots)


def adjusted_rand_index(truth: list[str], found: list[int]) -> float:
    """Agreement of two partitions: 1 for equal ones, about 0 for chance (Hubert & Arabie 1985)."""
    table = np.array(
        [
            [sum(1 for a, b in zip(truth, found, strict=True) if (a, b) == (t, f)) for f in sorted(set(found))]
            for t in sorted(set(truth))
        ]
    )

    def pairs(counts: Ints) -> float:
        return float((counts * (counts - 1) / 2).sum())

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    chance = rows * columns / pairs(np.array([len(truth)]))
    most = (rows + columns) / 2
    return 1.0 if most == chance else (both - chance) / (most - chance)


def score(trial: Trial, count: int | None, seed: int) -> tuple[bool, float]:
    """Return (exact, adjusted Rand index) of what the aggregator makes of a trial."""
    groups = discover(trial.reports, trial.known, trial.public_set, count=count, seed=seed).groups
    found = [next(g for g, group in enumerate(groups) if i in group.members) for i in range(len(trial.truth))]
    index = adjusted_rand_index(trial.truth, found)
    return len(set(found)) == len(set(trial.truth)) and index == 1.0, index


_loaded: dict[str, Any] = {}


def _load_once(archive: Path, bundles: Path) -> None:
    entries = [entry for entry in pictures(archive) if entry.label in KNOWN + NEW]
    x = features_of_power(mel_power(read_pictures(archive, entries)), preset("gudur"))
    x = (x - x.mean(axis=(0, 1))) / x.std(axis=(0, 1))
    labels, speakers = (np.array(list(column)) for column in zip(*((e.label, e.speaker) for e in entries), strict=True))
    _loaded.update(corpus=LogMel(x, labels, speakers), bundles=bundles)


def _both_kinds(seed: int) -> dict[str, tuple[bool, float]]:
    """Run a seed's two trials in a process that has the corpus: (exact, adjusted Rand index) of each question."""
    two = run_trial(_loaded["corpus"], _loaded["bundles"], seed, shared=False)
    one = run_trial(_loaded["corpus"], _loaded["bundles"], seed, shared=True)
    return {
        "two new classes, number told": score(two, 2, seed),
        "two new classes, number not told": score(two, None, seed),
        "one shared class, number not told": score(one, None, seed),
    }


def build_bundles(folder: Path) -> None:
    """Build the trial's models (in a process of its own: TensorFlow stays out of this one)."""
    subprocess.run(
        [sys.executable, "-m", "model_export.cli", "build", *ARCHITECTURES, "-o", f"{folder}/"],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    data = Path(os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data")) / "gsc_v2_logmel_jpg.zip"
    if not data.is_file():
        raise SystemExit(f"there is no {data}; set AURICLE_DATA to the folder that holds this archive")
    bundles = ROOT / "build" / "class-discovery"
    build_bundles(bundles)
    results: dict[str, list[tuple[bool, float]]] = {}
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), _load_once, (data, bundles)) as workers:
        for seed, trial in enumerate(workers.imap(_both_kinds, range(options.trials))):
            for kind, row in trial.items():
                results.setdefault(kind, []).append(row)
            print(f"trial {seed:2d}: " + "; ".join(f"{kind} {row[1]:+.2f}" for kind, row in trial.items()), flush=True)
    for kind, rows in results.items():
        print(f"{kind:36s} exact {sum(exact for exact, _ in rows):2d} of {len(rows)}")
    if options.json:
        print(json.dumps(summary(results)))


def summary(results: dict[str, list[tuple[bool, float]]]) -> dict[str, object]:
    """Return the benchmark's JSON: the trials with the number told, and the others beside them."""
    told, untold, shared = results.values()
    return {
        "exact": sum(exact for exact, _ in told),
        "trials": len(told),
        "adjusted_rand_index": [index for _, index in told],
        "number_not_told": {
            "exact": sum(exact for exact, _ in untold),
            "adjusted_rand_index": [index for _, index in untold],
        },
        "one_shared_class": {
            "exact": sum(exact for exact, _ in shared),
            "adjusted_rand_index": [index for _, index in shared],
        },
    }


if __name__ == "__main__":
    main()
