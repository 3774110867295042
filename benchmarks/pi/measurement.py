"""Measures one bundle with one number of threads, in a process of its own, so that its peak memory is its own.

Run as `python -m benchmarks.pi.measurement BUNDLE THREADS SAMPLES CLIPS`; it prints one JSON object.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edge_client.features.front_end import open_front_end
from edge_client.model.runtime import ModelRuntime

_EPOCHS, _CLASSES, _RATE = 3, 10, 0.01


def train_seconds(runtime: ModelRuntime, samples: int) -> float:
    """Return the median time of an epoch of so many samples, in shuffled batches, after one that is not measured."""
    batch, capacity = runtime.manifest.batch, runtime.manifest.capacity
    generator = np.random.default_rng(0)
    x = generator.normal(size=(samples, *runtime.manifest.input_shape)).astype(np.float32)
    targets = np.eye(capacity, dtype=np.float32)[generator.integers(0, _CLASSES, samples)]
    mask = (np.arange(capacity) < _CLASSES).astype(np.float32)

    def epoch() -> None:
        order = generator.permutation(samples)
        for start in range(0, samples, batch):
            rows = order[start : start + batch]
            runtime.train_step(x[rows], targets[rows], mask, learning_rate=_RATE)

    epoch()
    return statistics.median(timed(epoch) for _ in range(_EPOCHS))


def latencies_ms(runtime: ModelRuntime, clips: int) -> dict[str, float]:
    """Return median and 95th percentile of recognising one clip, from its features and from its sound."""
    settings = runtime.manifest.feature_settings
    features_of = open_front_end(settings)
    generator = np.random.default_rng(1)
    sounds = generator.normal(scale=0.1, size=(8, settings.clip_samples)).astype(np.float32)
    mask = (np.arange(runtime.manifest.capacity) < _CLASSES).astype(np.float32)
    x = runtime.normalise(features_of(sounds))
    ways: dict[str, Callable[[int], object]] = {
        "inference": lambda i: runtime.predict(x[i % 8][None], mask),
        "with_features": lambda i: runtime.predict(runtime.normalise(features_of(sounds[i % 8][None])), mask),
    }
    figures = {}
    for name, way in ways.items():
        way(0)
        times = [1000 * timed(lambda i=i, way=way: way(i)) for i in range(clips)]  # type: ignore[misc]
        figures[f"{name}_ms_median"] = float(np.median(times))
        figures[f"{name}_ms_p95"] = float(np.percentile(times, 95))
    return figures


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mb() -> float:
    """Return the most memory that this process ever held, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def main(bundle: Path, threads: int, samples: int, clips: int) -> None:
    """Measure, and print the figures."""
    runtime = ModelRuntime.open(bundle, threads)
    figures = {
        "runtime": runtime.runtime_name,
        "train_seconds_per_epoch": train_seconds(runtime, samples) * 1000 / samples,
        **latencies_ms(runtime, clips),
        "peak_mb": peak_mb(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(argument) for argument in sys.argv[2:5]))
