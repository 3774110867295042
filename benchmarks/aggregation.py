"""Aggregation: how long the rules take for 1,000 uploads of 50,000 weights, and how much memory.

A rule's time is from the uploads in memory, as Auricle or Flower holds them, to the fleet's new weights; beside it
stand one plain read of the same bytes from the blobs that the devices uploaded, and the rule's time with filling the
memory from these blobs, whose digests are compared with their names as the aggregator does. Every rule runs in a
process of its own, where it takes turns with the plain read. Times are medians; memory is the most that the process
held above one that only reads, in copies of all uploads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from aggregator_server.aggregation import Layout, aggregate_weights, stack_updates
from aggregator_server.store.blobs import BlobFolder
from benchmarks.command import Command, said
from benchmarks.processes import peak_mb
from fleet_protocol.bundle import Layer
from fleet_protocol.messages import Choice, Update
from fleet_protocol.tensors import Arrays, pack, view

SHAPES: dict[str, tuple[int, ...]] = {
    "conv1.kernel": (3, 3, 1, 16),
    "conv1.bias": (16,),
    "conv2.kernel": (3, 3, 16, 32),
    "conv2.bias": (32,),
    "norm.scale": (48,),
    "dense.kernel": (672, 64),
    "dense.bias": (64,),
    "head.kernel": (64, 32),
    "head.bias": (32,),
}
LAYOUT = Layout(
    tuple(
        Layer(layer, tuple(name for name in SHAPES if name.startswith(f"{layer}.")))
        for layer in dict.fromkeys(name.partition(".")[0] for name in SHAPES)
    ),
    SHAPES,
)

RULES: dict[str, Choice] = {
    "lpa": Choice("lpa", {"v_l": 0.1, "v_h": 0.1}),
    "weighted_mean": Choice("weighted_mean"),
    "median": Choice("median"),
    "screened_mean": Choice("screened_mean"),
    "trimmed_mean": Choice("trimmed_mean", {"trim": 0.1}),
    "krum": Choice("krum", {"byzantine": 0.2}),
    "multi_krum": Choice("multi_krum", {"byzantine": 0.2, "keep": 0.5}),
    "clipped mean, adam": Choice("weighted_mean", {"clip_norm": 5.0, "server_optimiser": "adam"}),
}
IN_FLOWER = ("weighted_mean", "median", "trimmed_mean", "krum", "multi_krum")


@dataclass(frozen=True)
class Uploads:
    """The folder of blobs, the uploads' digests, and every device's number of clips."""

    blobs: BlobFolder
    digests: tuple[str, ...]
    sizes: tuple[int, ...]


Combine = Callable[[], object]
Prepare = Callable[[Uploads, str], Combine]
"""Loads what a rule needs from the blobs, and returns what combines them."""


def write_uploads(folder: Path, devices: int) -> Uploads:
    """Write what devices upload: weights near the fleet's, those of a tenth of the devices far off."""
    blobs, rng = BlobFolder(folder), np.random.default_rng(1)
    fleet = {name: rng.normal(scale=0.1, size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    digests, sizes = [], [int(size) for size in rng.integers(20, 400, devices)]
    for number, size in enumerate(sizes):
        spread = np.float32(0.5 if number % 10 == 7 else 0.01)
        weights = {n: a + spread * rng.standard_normal(a.shape, np.float32) for n, a in fleet.items()}
        none = "0" * 64
        update = Update(
            round_id=1, device_id=f"device-{number:04d}", features=none, public_set=none, classes=(), clips=size
        )
        digests.append(blobs.put(pack(weights, asdict(update))))
    return Uploads(blobs, tuple(digests), tuple(sizes))


def load(blobs: BlobFolder, digest: str) -> Arrays:
    """Return an upload's arrays, as the aggregator reads them."""
    return view(blobs.read(digest))[0]


def ours(uploads: Uploads, rule: str) -> Combine:
    """Prepare one of Auricle's rules."""
    stacked = stack_updates(
        LAYOUT, {f"{row:04d}": partial(load, uploads.blobs, digest) for row, digest in enumerate(uploads.digests)}
    )
    previous = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    return lambda: aggregate_weights(RULES[rule], stacked, np.array(uploads.sizes, np.float64), previous, {})


def flower(uploads: Uploads, rule: str) -> Combine:
    """Prepare Flower's function for the rule."""
    from flwr.server.strategy.aggregate import aggregate, aggregate_krum, aggregate_median, aggregate_trimmed_avg

    uploaded = zip(uploads.digests, uploads.sizes, strict=True)
    results = [(list(load(uploads.blobs, digest).values()), size) for digest, size in uploaded]
    count = len(results)
    combine: dict[str, Combine] = {
        "weighted_mean": lambda: aggregate(results),
        "median": lambda: aggregate_median(results),
        "trimmed_mean": lambda: aggregate_trimmed_avg(results, 0.1),
        "krum": lambda: aggregate_krum(results, count // 5, 0),
        "multi_krum": lambda: aggregate_krum(results, count // 5, count // 2),
    }
    return combine[rule]


def nothing(_: Uploads, __: str) -> Combine:
    """Prepare nothing: what a process takes that only reads."""
    return lambda: None


def _measure(prepare: Prepare, uploads: Uploads, rule: str, turns: int) -> tuple[float, float, float, float]:
    """Let loading, rule and plain read take turns; return medians in seconds, and the peak of memory in MB."""
    times = []
    for _ in range(turns):
        clock = [time.perf_counter()]
        combine = prepare(uploads, rule)
        clock.append(time.perf_counter())
        combine()
        del combine  # and the copy that it holds
        clock.append(time.perf_counter())
        for digest in uploads.digests:
            uploads.blobs.path(digest).read_bytes()
        times.append(np.diff([*clock, time.perf_counter()]))
    loading, rule_s, reading = np.median(times, axis=0).tolist()
    return loading, rule_s, reading, peak_mb(os.getpid())


def _in_own_process(prepare: Prepare, uploads: Uploads, rule: str, turns: int) -> tuple[float, float, float, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, prepare, uploads, rule, turns).result()


def compare(uploads: Uploads, turns: int, with_flower: bool) -> list[dict[str, object]]:
    """Measure every rule; ``flower_s`` is None where Flower has no such rule, ``reads`` are plain ones."""
    copy_mb = len(uploads.digests) * LAYOUT.width * 4 / 1e6
    *_, idle_mb = _in_own_process(nothing, uploads, "", turns)
    print(f"{len(uploads.digests)} uploads of {LAYOUT.width} weights, {copy_mb:.0f} MB; medians of {turns} turns")
    results = []
    for rule in RULES:
        loading, rule_s, reading, most_mb = _in_own_process(ours, uploads, rule, turns)
        row: dict[str, object] = {"rule": rule, "ours_s": rule_s, "read_s": reading, "peak_mb": most_mb}
        row |= {"reads": rule_s / reading, "reads_with_loading": (loading + rule_s) / reading}
        row |= {"copies": (most_mb - idle_mb) / copy_mb, "flower_s": None, "flower_copies": None}
        if with_flower and rule in IN_FLOWER:
            flowers_turns = 1 if "krum" in rule else min(turns, 3)
            _, flower_s, _, flower_mb = _in_own_process(flower, uploads, rule, flowers_turns)
            row |= {"flower_s": flower_s, "flower_copies": (flower_mb - idle_mb) / copy_mb}
        results.append(said(row))
    return results


def main() -> int:
    """Print the figures of every rule."""
    parser = Command("benchmarks.aggregation", __doc__)
    parser.add_argument("--devices", type=int, default=1_000, metavar="N", help="uploads (1000)")
    parser.add_argument("--turns", type=int, default=11, metavar="N", help="of each measurement (11)")
    parser.add_argument("--without-flower", action="store_true", help="measure Auricle's rules alone")

    def work(chosen: argparse.Namespace) -> object:
        with tempfile.TemporaryDirectory() as folder:
            uploads = write_uploads(Path(folder), chosen.devices)
            return compare(uploads, chosen.turns, not chosen.without_flower)

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
