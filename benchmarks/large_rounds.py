"""Whole computations of rounds that are larger than the memory: uploads of 50 kB, from the blobs to the result.

Every rule runs in a process of its own. ``s`` is everything: documents, digests, arrays, the rule. Beside it stands
one plain read of the same blobs by the same process, in the same run. ``cpu_s`` is processor time of all threads.
``blob_reads`` says how often the bytes of the uploads were read from the store, ``all_reads`` the same with what was
read again from the temporary file. Memory is the most that the process held, libraries included.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from aggregator_server.aggregation import Layout, aggregate_weights, stack_updates
from aggregator_server.aggregation.contract import ClassTerms, Contribution
from aggregator_server.rounds.inputs import StoredRound
from aggregator_server.rounds.result import compute_result
from aggregator_server.rounds.snapshot import RoundSnapshot
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.strategies.registry import complete
from benchmarks.command import said
from benchmarks.processes import peak_mb
from fleet_protocol.bundle import Layer
from fleet_protocol.feature_settings import PRESETS, EmbeddingSettings, FrozenNetwork
from fleet_protocol.messages import Choice, ClassInfo, RoundPlan, Update, to_json
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays, pack

SHAPES: dict[str, tuple[int, ...]] = {
    "conv1.kernel": (3, 3, 1, 8),
    "conv1.bias": (8,),
    "conv2.kernel": (3, 3, 8, 16),
    "conv2.bias": (16,),
    "norm.scale": (24,),
    "dense.kernel": (312, 32),
    "dense.bias": (32,),
    "head.kernel": (32, 32),
    "head.bias": (32,),
}


def layout_of(shapes: dict[str, tuple[int, ...]]) -> Layout:
    """Return the layout of weights that are called by their layer, as in ``conv1.kernel``."""
    layers = dict.fromkeys(name.partition(".")[0] for name in shapes)
    return Layout(
        tuple(Layer(layer, tuple(n for n in shapes if n.startswith(f"{layer}."))) for layer in layers), shapes
    )


LAYOUT = layout_of(SHAPES)
CLASSES, SAMPLES, NUMBERS = 12, 1_000, 1_024
STRATEGIES = {"scores": "zero_shot", "prototypes": "prototypes"}
RULES_OF = {
    "weights": ("weighted_mean", "median", "trimmed_mean", "lpa", "screened_mean", "krum", "multi_krum"),
    "scores": ("label_wise",),
    "prototypes": ("prototype_mean",),
}


@dataclass(frozen=True)
class Round:
    """Blobs of a round's uploads, and what a computation starts from."""

    folder: Path
    snapshot: RoundSnapshot


class CountedBlobs(BlobFolder):
    """A folder of blobs that counts the bytes that are read from it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bytes_read = 0
        self._lock = threading.Lock()

    def read(self, sha256: str) -> bytes:
        """Return a blob's bytes, as the folder does."""
        data = super().read(sha256)
        with self._lock:
            self.bytes_read += len(data)
        return data


def _public_set(kind: str) -> PublicSet:
    mel = asdict(PRESETS["log_mel"]) | {"preset": "any"}
    settings = EmbeddingSettings(**mel, numbers=NUMBERS, network=FrozenNetwork.of(b"a network"))
    chosen = settings if kind == "prototypes" else PRESETS["gudur"]
    samples = SAMPLES if kind == "scores" else 10 * CLASSES
    rng = np.random.default_rng(0)
    return PublicSet(
        chosen,
        tuple(ClassInfo(f"c{index}", f"word {index}") for index in range(CLASSES)),
        rng.normal(size=(samples, *chosen.shape)).astype(np.float32),
        (np.arange(samples) % CLASSES).astype(np.int64),
        np.zeros(samples, np.bool_),
    )


def _uploads(kind: str, devices: int) -> Iterator[Arrays]:
    """Yield what devices upload: near what all have in common, those of a tenth of them far off."""
    rng = np.random.default_rng(1)
    fleet = {name: rng.normal(scale=0.1, size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    middles = rng.normal(size=(CLASSES, 1, NUMBERS)).astype(np.float32)
    labels = np.arange(SAMPLES) % CLASSES
    for number in range(devices):
        spread = np.float32(0.5 if number % 10 == 7 else 0.01)
        if kind == "weights":
            yield {f"weights/{n}": a + spread * rng.standard_normal(a.shape, np.float32) for n, a in fleet.items()}
        elif kind == "scores":
            scores = rng.random((SAMPLES, CLASSES), np.float32)
            scores[np.arange(SAMPLES), labels] += np.float32(0.02) / spread
            yield {"scores": scores / scores.sum(axis=1, keepdims=True)}
        else:
            noise = rng.standard_normal(middles.shape, np.float32)
            counts = rng.integers(1, 30, CLASSES).astype(np.float32)
            yield {"prototypes": middles + 10 * spread * noise, "counts": counts}


def write_round(folder: Path, kind: str, devices: int) -> Round:
    """Write a round's blobs, without waiting for the disk."""
    blobs, sizes = BlobFolder(folder), np.random.default_rng(2).integers(20, 400, devices).tolist()
    public_set, uploads = _public_set(kind), []
    stored = blobs.put(public_set.pack())
    known = public_set.class_ids if kind == "prototypes" else ()
    for number, (arrays, clips) in enumerate(zip(_uploads(kind, devices), sizes, strict=True)):
        device_id = hashlib.sha256(str(number).encode()).hexdigest()[:32]
        update = Update(
            round_id=1,
            device_id=device_id,
            features=public_set.settings.digest,
            public_set=stored,
            classes=public_set.class_ids,
            clips=clips,
            known=known,
            metrics={"training_loss": 0.5, "accuracy": 0.9},
        )
        data = pack(arrays, asdict(update))
        digest = hashlib.sha256(data).hexdigest()
        blobs.path(digest).write_bytes(data)
        uploads.append((device_id, digest, False))
    aggregation = complete("aggregation", Choice(RULES_OF[kind][0]))
    none = Choice("none")
    plan = RoundPlan(local=none, aggregation=aggregation, selection=none, deadline_s=1.0, quorum=1.0, seed=1)
    snapshot = RoundSnapshot(
        round_id=1,
        strategy=STRATEGIES.get(kind, "fedavg"),
        plan=to_json(plan),
        new_classes=None,
        deadline_at=1.0,
        public_set=stored,
        consensus=None,
        selected=devices,
        uploads=tuple(sorted(uploads)),
        classes=public_set.classes,
        assigned=(),
        model=None,
        weights=None,
        server_state=None,
        prototypes=None,
        revoked=(),
        class_terms=ClassTerms(),
    )
    return Round(folder, snapshot)


def _weights(contribution: Contribution) -> Arrays:
    return {name.removeprefix("weights/"): array for name, array in contribution.read().items()}


def _combine(blobs: BlobFolder, snapshot: RoundSnapshot, rule: str, rounds: int) -> None:
    """Compute a round as the aggregator does; of weights several, so that devices have records of their own."""
    if rule not in RULES_OF["weights"]:
        compute_result(blobs, snapshot)
        return
    state: Arrays = {}
    for _ in range(rounds):
        inputs = StoredRound(blobs, snapshot).inputs()
        uploads = {c.update.device_id: partial(_weights, c) for c in inputs.contributions}
        sizes = np.array([c.update.clips for c in inputs.contributions], np.float64)
        previous = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
        stacked = stack_updates(LAYOUT, uploads, inputs.scratch)
        _, state, _ = aggregate_weights(complete("aggregation", Choice(rule)), stacked, sizes, previous, state)


def _all_read() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


def _measure(given: Round, rule: str, rounds: int) -> dict[str, object]:
    blobs, size = CountedBlobs(given.folder), 0
    idle_mb, read_before = peak_mb(os.getpid()), _all_read()
    began, cpu_began = time.perf_counter(), time.process_time()
    _combine(blobs, given.snapshot, rule, rounds)
    took, cpu_s = (time.perf_counter() - began) / rounds, (time.process_time() - cpu_began) / rounds
    read_after, most_mb = _all_read(), peak_mb(os.getpid())
    began, cpu_began = time.perf_counter(), time.process_time()
    for _, digest, _ in given.snapshot.uploads:
        size += len(blobs.path(digest).read_bytes())
    reading, read_cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    row: dict[str, object] = {"rule": rule, "rounds": rounds, "s": took, "read_s": reading, "reads": took / reading}
    row |= {"cpu_s": cpu_s, "read_cpu_s": read_cpu_s}
    row |= {"blob_reads": blobs.bytes_read / rounds / size, "all_reads": (read_after - read_before) / rounds / size}
    return row | {"peak_mb": most_mb, "idle_mb": idle_mb, "uploads_mb": size / 1e6}


def measure_rounds(devices: int, rules: tuple[str, ...]) -> list[dict[str, object]]:
    """Measure rules, all where none are named; the uploads of one kind are on disk at a time."""
    results = []
    for kind, known in RULES_OF.items():
        chosen = [rule for rule in known if rule in rules or not rules]
        if not chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            given = write_round(Path(folder), kind, devices)
            for rule in chosen:
                for rounds in (1, 2) if rule == "screened_mean" else (1,):
                    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                        results.append(said(pool.submit(_measure, given, rule, rounds).result()))
    return results


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that benchmarks.aggregation has for it."""
    parser.add_argument("--rounds", action="store_true", help="measure whole computations of uploads of 50 kB")
    parser.add_argument("--rules", nargs="+", default=(), metavar="RULE", help="of these alone (all)")
