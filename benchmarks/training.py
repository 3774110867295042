"""Training: seconds per 1,000 samples and process memory, for Keras and the three runtimes side by side.

Every figure comes from a process of its own; repetitions take turns and medians are compared. Keras trains its own
stock layers with `fit`; the runtimes train the same network's bundle through `ModelRuntime`, as a device does. All see
the same shuffled batches of 32, features `gudur` (20 x 13), 10 of 32 classes switched on, momentum SGD.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.bundles import ARCHITECTURES, build_bundles
from benchmarks.command import QUIET, Command, output_of_module, said
from benchmarks.processes import peak_mb as peak_mb_of
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import preset
from model_export.feature_statistics import Normalisation
from model_export.specification import Specification

ENGINES = {
    "keras": "tensorflow",
    "c-library": "pymicro_wakeword",
    "litert": "ai_edge_litert",
    "tflite-runtime": "tflite_runtime",
}
SAMPLES, CLASSES, RATE, MOMENTUM = 2400, 10, 0.01, 0.9


def specification(architecture: str, downsampling: str) -> Specification:
    """Return what every engine trains."""
    settings = preset("gudur")
    return Specification(architecture, settings, Normalisation.default(settings), downsampling=downsampling)


def samples(capacity: int) -> tuple[Floats, Floats]:
    """Return random x [SAMPLES, 20, 13] and one-hot targets [SAMPLES, capacity]."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(SAMPLES, 20, 13)).astype(np.float32)
    return x, np.eye(capacity, dtype=np.float32)[generator.integers(0, CLASSES, SAMPLES)]


def keras_epoch(wanted: Specification, threads: int) -> Callable[[], None]:
    """Prepare Keras; return what trains one epoch."""
    import keras
    import tensorflow as tf

    from model_export import network

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    model = network.build(wanted, stock=True)
    model.compile(keras.optimizers.SGD(RATE, momentum=MOMENTUM), keras.losses.CategoricalCrossentropy(from_logits=True))
    x, targets = samples(wanted.capacity)

    def epoch() -> None:
        model.fit(x, targets, batch_size=wanted.batch, epochs=1, verbose=0)

    return epoch


def device_epoch(bundle: Path, threads: int) -> Callable[[], None]:
    """Prepare the runtime that AURICLE_RUNTIME names; return what trains one epoch."""
    from edge_client.model.runtime import ModelRuntime

    runtime = ModelRuntime.open(bundle, threads)
    batch, capacity = runtime.manifest.batch, runtime.manifest.capacity
    x, targets = samples(capacity)
    mask = (np.arange(capacity) < CLASSES).astype(np.float32)
    generator = np.random.default_rng(1)

    def epoch() -> None:
        order = generator.permutation(len(x))
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            runtime.train_step(x[rows], targets[rows], mask, learning_rate=RATE, momentum=MOMENTUM)

    return epoch


def work(engine: str, wanted: Specification, threads: int, bundle: Path) -> None:
    """Measure in this process: print seconds per 1,000 samples (best of five epochs) and peak memory in MB."""
    epoch = keras_epoch(wanted, threads) if engine == "keras" else device_epoch(bundle, threads)
    epoch()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        epoch()
        times.append(time.perf_counter() - start)
    print(json.dumps([min(times) / SAMPLES * 1000, peak_mb_of(os.getpid()) / 1.048576]))


def measure(engine: str, wanted: Specification, threads: int, bundle: Path) -> list[float]:
    """Run :func:`work` in a process of its own; return [seconds per 1,000 samples, MB]."""
    runtime = {"c-library": "c", "litert": "litert", "tflite-runtime": "tflite"}.get(engine, "")
    options = ["--architectures", wanted.architecture, "--downsampling", wanted.downsampling]
    worker = ["--worker", engine, threads, bundle]
    environment = QUIET | {"AURICLE_RUNTIME": runtime}
    output = output_of_module("benchmarks.training", *worker, *options, **environment)
    figures: list[float] = json.loads(output.splitlines()[-1])
    return figures


def compare(options: argparse.Namespace, engines: list[str], folder: Path) -> list[dict[str, object]]:
    """Measure every engine on every architecture, taking turns; print a line for each."""
    results = []
    for architecture in options.architectures:
        wanted = specification(architecture, options.downsampling)
        for threads in options.threads:
            runs: dict[str, list[list[float]]] = {engine: [] for engine in engines}
            for _ in range(options.repetitions):
                for engine in engines:
                    runs[engine].append(measure(engine, wanted, threads, folder / f"{architecture}.auricle"))
            for engine in engines:
                seconds, peak_mb = (statistics.median(figures) for figures in zip(*runs[engine], strict=True))
                figures = {"seconds_per_1000": round(seconds, 5), "peak_mb": round(peak_mb, 1)}
                results.append(said({"architecture": architecture, "engine": engine, "threads": threads, **figures}))
    return results


def main() -> int:
    """Print the table."""
    parser = Command("benchmarks.training", __doc__)
    parser.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), choices=ARCHITECTURES)
    parser.add_argument("--downsampling", default="stride", help="stride (default) or pool")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="(1 2)")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="processes for each figure (3)")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.run(compared)


def compared(options: argparse.Namespace) -> object:
    """Print a line for each architecture and thread count; return the figures, none of a worker."""
    if options.worker:
        engine, threads, bundle = options.worker
        work(engine, specification(options.architectures[0], options.downsampling), int(threads), Path(bundle))
        return None
    engines = [engine for engine, module in ENGINES.items() if importlib.util.find_spec(module)]
    print(f"seconds per 1,000 samples and peak memory of the process; medians of {options.repetitions} processes\n")
    with tempfile.TemporaryDirectory() as folder:
        build_bundles(Path(folder), options.architectures, "--downsampling", options.downsampling)
        return compare(options, engines, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
