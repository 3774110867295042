"""Aggregation: how long rules take for uploads of 50 kB, in plain reads of the same files, and how much memory.

A rule's time goes from the uploads in the memory to the fleet's result; that of label-wise beta has reading them in it,
for it holds one at a time. `all reads` has reading and checking the files in it. Beside them stand Flower's functions,
where Flower is installed and has them. Each rule runs in a process of its own, in turns with the plain read; times are
medians. The files are at most 1,000; more devices send the same ones again.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aggregator_server.aggregation.label_wise_beta import DeviceScores, label_wise
from aggregator_server.aggregation.rule import aggregate_weights
from aggregator_server.aggregation.updates import Layout, stack_updates
from aggregator_server.store.blobs import BlobFolder
from benchmarks.command import Command, said
from benchmarks.processes import peak_mb
from fleet_protocol.bundle.bundle_file import Layer
from fleet_protocol.messages.rest import Choice
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.tensors import Arrays, pack, view

SHAPES = {"conv/kernel": (3, 3, 16, 32), "dense/kernel": (116, 64), "head/kernel": (64, 7)}
LAYOUT = Layout(tuple(Layer(name.split("/")[0], (name,)) for name in SHAPES), SHAPES)
SAMPLES, CLASSES = 500, 25  # scores of as many numbers as there are weights, within some per cent
RULES = ("label_wise", "lpa", "median", "krum")
SETTINGS = {"lpa": {"v_l": 0.1, "v_h": 0.1}, "krum": {"byzantine": 0.2}}
_DISTINCT = 1_000
Work = Callable[[], object]


def _write_uploads(folder: Path, devices: int, rule: str) -> list[Path]:
    """Write what devices upload: scores of a public set, or weights; return the file of each."""
    blobs, rng = BlobFolder(folder), np.random.default_rng(1)
    shapes = {"scores": (SAMPLES, CLASSES)} if rule == "label_wise" else SHAPES
    digests = [
        blobs.put(pack({name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}, {}))
        for _ in range(min(devices, _DISTINCT))
    ]
    return [blobs.path(digests[device % len(digests)]) for device in range(devices)]


def _load(file: Path) -> Arrays:
    """Return an upload's arrays, as the aggregator reads them."""
    return view(BlobFolder(file.parents[1]).read(file.name))[0]


def _scores(file: Path) -> Floats:
    return _load(file)["scores"]


def _ours(rule: str, files: Sequence[Path]) -> Work:
    """Read what a rule of Auricle needs; return what combines it."""
    if rule == "label_wise":
        labels = np.arange(SAMPLES) % CLASSES
        owned, nothing = np.arange(CLASSES), np.zeros((SAMPLES, CLASSES), np.float32)
        devices = [DeviceScores(f"{row:06d}", owned, partial(_scores, file)) for row, file in enumerate(files)]
        return lambda: label_wise(devices, labels, np.zeros(SAMPLES, np.bool_), nothing)
    stacked = stack_updates(LAYOUT, {f"{row:06d}": partial(_load, file) for row, file in enumerate(files)})
    previous = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    choice = Choice(rule, dict(SETTINGS.get(rule, {})))
    return lambda: aggregate_weights(choice, stacked, np.ones(len(files)), previous, {})


def _flowers(rule: str, files: Sequence[Path]) -> Work:
    """Read what Flower's function needs; return what combines it."""
    from flwr.server.strategy.aggregate import aggregate_krum, aggregate_median

    results = [(list(_load(file).values()), 1) for file in files]
    return (
        (lambda: aggregate_median(results)) if rule == "median" else lambda: aggregate_krum(results, len(files) // 5, 0)
    )


def _measure(
    prepare: Callable[[str, Sequence[Path]], Work], rule: str, files: Sequence[Path], turns: int
) -> list[float]:
    """Return medians of a plain read, reading in and the rule, seconds; and the memory beyond an idle process's, MB."""
    idle, times = peak_mb(os.getpid()), []
    for _ in range(turns):
        clock = [time.perf_counter()]
        for file in files:
            file.read_bytes()
        clock.append(time.perf_counter())
        work = prepare(rule, files)
        clock.append(time.perf_counter())
        work()
        del work  # and the copy that it holds
        times.append(np.diff([*clock, time.perf_counter()]))
    return [*np.median(times, axis=0).tolist(), peak_mb(os.getpid()) - idle]


def _apart(*arguments: Any) -> list[float]:  # noqa: ANN401  (as `_measure`)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, *arguments).result()


def compare(devices: int, turns: int, rules: Sequence[str]) -> list[dict[str, Any]]:
    """Measure rules; print a line of each."""
    rows = []
    for rule in rules:
        with tempfile.TemporaryDirectory() as folder:
            files = _write_uploads(Path(folder), devices, rule)
            plain, loading, taken, most_mb = _apart(_ours, rule, files, turns)
            row = {"rule": rule, "devices": devices, "seconds": taken, "reads": taken / plain}
            row |= {"all reads": (loading + taken) / plain, "mb": most_mb}
            if rule in ("median", "krum") and importlib.util.find_spec("flwr"):
                _, _, flowers, flowers_mb = _apart(_flowers, rule, files, 1)
                row |= {"flower, times": flowers / taken, "flower mb": flowers_mb}
            rows.append(said(row))
    return rows


def _headline(rows: list[dict[str, Any]]) -> str:
    parts = (
        f"{row['rule']} {row['reads']:.1f} reads, {row['all reads']:.1f} in all, {row['mb']:.0f} MB" for row in rows
    )
    return f"{rows[0]['devices']:,} uploads: " + "; ".join(parts)


def main() -> int:
    """Print the figures of every rule."""
    parser = Command("benchmarks.aggregation", __doc__, _headline)
    parser.add_argument("--devices", type=int, default=1_000, metavar="N", help="uploads (1000)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each measurement (5)")
    parser.add_argument("--rules", nargs="+", default=RULES, choices=RULES, help="(all)")

    def work(chosen: argparse.Namespace) -> object:
        return compare(chosen.devices, chosen.turns, chosen.rules)

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
