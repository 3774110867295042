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
import statistics
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
from benchmarks.command import Command
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
LAYERS = ("conv1", "conv2", "norm", "dense", "head")
LAYOUT = Layout(tuple(Layer(name, tuple(w for w in SHAPES if w.startswith(f"{name}."))) for name in LAYERS), SHAPES)

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


@dataclass(frozen=True)
class Measured:
    """Medians in seconds of a rule, of loading what it needs and of a plain read, and the peak of memory in MB."""

    rule_s: float
    load_s: float
    read_s: float
    peak_mb: float


def write_uploads(folder: Path, devices: int) -> Uploads:
    """Write what devices upload: weights near the fleet's, those of a tenth of the devices far off."""
    blobs, rng = BlobFolder(folder), np.random.default_rng(1)
    fleet = {name: rng.normal(scale=0.1, size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    digests, sizes = [], [int(size) for size in rng.integers(20, 400, devices)]
    for number, size in enumerate(sizes):
        spread = np.float32(0.5 if number % 10 == 7 else 0.01)
        weights = {n: a + spread * rng.standard_normal(a.shape, np.float32) for n, a in fleet.items()}
        update = Update(
            round_id=1, device_id=f"device-{number:04d}", features="0" * 64, public_set="0" * 64, classes=(), clips=size
        )
        digests.append(blobs.put(pack(weights, asdict(update))))
    return Uploads(blobs, tuple(digests), tuple(sizes))


def read(uploads: Uploads) -> None:
    """Read every blob once and do nothing with it."""
    for digest in uploads.digests:
        uploads.blobs.path(digest).read_bytes()


def load(blobs: BlobFolder, digest: str) -> Arrays:
    """Return an upload's arrays, as the aggregator reads them."""
    return view(blobs.read(digest))[0]


def ours(uploads: Uploads, rule: str) -> Callable[[], object]:
    """Load the blobs, and return what combines them by one of Auricle's rules."""
    stacked = stack_updates(
        LAYOUT, {f"{row:04d}": partial(load, uploads.blobs, digest) for row, digest in enumerate(uploads.digests)}
    )
    previous = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    return lambda: aggregate_weights(RULES[rule], stacked, np.array(uploads.sizes, np.float64), previous, {})


def flower(uploads: Uploads, rule: str) -> Callable[[], object]:
    """Load the same blobs, and return what combines them by Flower's function for the rule."""
    from flwr.server.strategy.aggregate import aggregate, aggregate_krum, aggregate_median, aggregate_trimmed_avg

    uploaded = zip(uploads.digests, uploads.sizes, strict=True)
    results = [(list(load(uploads.blobs, digest).values()), size) for digest, size in uploaded]
    count = len(results)
    combine: dict[str, Callable[[], object]] = {
        "weighted_mean": lambda: aggregate(results),
        "median": lambda: aggregate_median(results),
        "trimmed_mean": lambda: aggregate_trimmed_avg(results, 0.1),
        "krum": lambda: aggregate_krum(results, count // 5, 0),
        "multi_krum": lambda: aggregate_krum(results, count // 5, count // 2),
    }
    return combine[rule]


def nothing(_: Uploads, __: str) -> Callable[[], object]:
    """Prepare nothing: what a process takes that only reads."""
    return lambda: None


def seconds(work: Callable[[], object]) -> float:
    """Return how long a work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(
    prepare: Callable[[Uploads, str], Callable[[], object]], uploads: Uploads, rule: str, turns: int
) -> Measured:
    """Let loading, rule and plain read take turns in this process."""
    loads, rules, reads = [], [], []
    for _ in range(turns):
        start = time.perf_counter()
        combine = prepare(uploads, rule)
        loads.append(time.perf_counter() - start)
        rules.append(seconds(combine))
        del combine  # and the copy that it holds
        reads.append(seconds(partial(read, uploads)))
    return Measured(statistics.median(rules), statistics.median(loads), statistics.median(reads), peak_mb(os.getpid()))


def in_own_process(
    prepare: Callable[[Uploads, str], Callable[[], object]], uploads: Uploads, rule: str, turns: int
) -> Measured:
    """Measure in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, prepare, uploads, rule, turns).result()


def compare(uploads: Uploads, turns: int, with_flower: bool) -> list[dict[str, object]]:
    """Measure every rule, and print a line for each at once; ``flower_s`` is None where Flower has no such rule."""
    copy_mb = len(uploads.digests) * LAYOUT.width * 4 / 1e6
    idle = in_own_process(nothing, uploads, "", turns)
    print(f"{len(uploads.digests)} uploads of {LAYOUT.width} weights, {copy_mb:.0f} MB; medians of {turns} turns")
    print(f"one plain read: {idle.read_s * 1e3:.0f} ms\n")
    print(f"{'':<19} {'seconds':>8} {'in reads':>9} {'with loading':>13} {'copies':>7}   {'Flower':>6}")
    results = []
    for rule in RULES:
        own = in_own_process(ours, uploads, rule, turns)
        line = f"{rule:<19} {_figures(own, idle, copy_mb)}"
        flower_s = None
        if with_flower and rule in IN_FLOWER:
            theirs = in_own_process(flower, uploads, rule, 1 if "krum" in rule else min(turns, 3))
            flower_s = theirs.rule_s
            line += f" {_figures(theirs, idle, copy_mb)}"
        print(line, flush=True)
        figures = {"rule": rule, "ours_s": own.rule_s, "flower_s": flower_s}
        results.append(figures | {"read_s": own.read_s, "peak_mb": own.peak_mb})
    return results


def _figures(measured: Measured, idle: Measured, copy_mb: float) -> str:
    reads, loaded = measured.rule_s / measured.read_s, (measured.rule_s + measured.load_s) / measured.read_s
    copies = (measured.peak_mb - idle.peak_mb) / copy_mb
    return f"{measured.rule_s:>8.3f} {reads:>8.1f}x {loaded:>12.1f}x {copies:>7.2f}"


def main() -> int:
    """Print the table."""
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
