"""Training: time of an epoch of 1,000 clips and memory, by the device's runtime beside Keras, on one thread.

Keras trains its own layers by `fit`; the device trains the same network's ready bundle. Both have batches of 32 of
features `gudur`, momentum SGD, and a process of their own; they take turns, and medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

from benchmarks.command import QUIET, Command, output_of_module, said
from benchmarks.processes import peak_mb
from fleet_protocol.bundle.ready_bundles import find_bundle
from model_export.epoch_and_latency import EPOCH, measure

ARCHITECTURES = ("cnn2", "dscnn3")
EPOCHS, CLASSES, RATE = 3, 10, 0.01


def _by_keras(architecture: str) -> list[float]:
    """Train by Keras in this process; return the seconds of an epoch and the most memory, MB."""
    import keras
    import tensorflow as tf

    from fleet_protocol.bundle.feature_settings import preset
    from model_export.bundle import build_network
    from model_export.feature_statistics import Normalisation
    from model_export.specification import Specification

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    settings = preset("gudur")
    specification = Specification(architecture, settings, Normalisation.default(settings))
    model = build_network(specification, stock=True)
    model.compile(keras.optimizers.SGD(RATE, momentum=0.9), keras.losses.CategoricalCrossentropy(from_logits=True))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(EPOCH, *settings.shape)).astype(np.float32)
    targets = np.eye(specification.capacity, dtype=np.float32)[generator.integers(0, CLASSES, EPOCH)]
    times = []
    for _ in range(1 + EPOCHS):  # the first one compiles
        start = time.perf_counter()
        model.fit(x, targets, batch_size=specification.batch, epochs=1, verbose=0)
        times.append(time.perf_counter() - start)
    return [statistics.median(times[1:]), peak_mb(os.getpid())]


def _kerass(architecture: str) -> list[float]:
    figures: list[float] = json.loads(
        output_of_module("benchmarks.training", "--worker", architecture, "--json", **QUIET).splitlines()[-1]
    )
    return figures


def _devices(architecture: str) -> list[float]:
    figures = measure(find_bundle(architecture), 1, clips=1)
    return [figures["train_seconds_per_epoch"], 1.048576 * figures["peak_mb"]]


def compare(architectures: list[str], turns: int) -> list[dict[str, Any]]:
    """Measure both, in turns; print a line of each network."""
    rows = []
    for name in architectures:
        taken = [(*_devices(name), *_kerass(name)) for _ in range(turns)]
        ours, ours_mb, kerass, kerass_mb = (statistics.median(figures) for figures in zip(*taken, strict=True))
        row = {"network": name, "epoch_s": ours, "mb": ours_mb, "keras_s": kerass, "keras_mb": kerass_mb}
        rows.append(said({**row, "of keras": ours / kerass}))
    return rows


def _headline(rows: list[dict[str, Any]]) -> str:
    return "an epoch: " + "; ".join(
        f"{row['network']} {row['of keras']:.2f} of Keras's time, {row['mb']:.0f} and {row['keras_mb']:.0f} MB"
        for row in rows
    )


def main() -> int:
    """Print the table."""
    parser = Command("benchmarks.training", __doc__, _headline)
    parser.add_argument("--architectures", nargs="+", default=ARCHITECTURES, choices=ARCHITECTURES, help="(both)")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="processes for each figure (3)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)

    def work(chosen: argparse.Namespace) -> object:
        return _by_keras(chosen.worker) if chosen.worker else compare(chosen.architectures, chosen.turns)

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
