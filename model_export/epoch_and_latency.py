"""How long this machine takes to train a bundle and to recognise with it: `auricle-export measure`, `make bench-pi`.

What is measured runs in a process of its own, so that its peak memory is its own, and without TensorFlow:
`python -m model_export.epoch_and_latency BUNDLE THREADS SAMPLES CLIPS` prints one JSON object.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import pace_of
from edge_client.features.front_end import open_front_end, open_sliding
from edge_client.model.interpreter import installed_runtime
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.own_python import python
from fleet_protocol.numbers.arrays import Floats
from model_export.errors import ExportError

EPOCH = 1000
"""Clips of an epoch."""
_EPOCHS, _CLASSES, _RATE, _SOUNDS = 3, 10, 0.01, 8


def measure(bundle: Path, threads: int = 1, samples: int = EPOCH, clips: int = 200) -> dict[str, Any]:
    """Measure a bundle on this machine.

    Args:
        samples: clips of an epoch that are trained on; the seconds are scaled to :data:`EPOCH`.
        clips: how many are recognised for each latency.

    Returns:
        ``runtime``; ``train_seconds_per_epoch`` on features that are there, ``feature_seconds_per_epoch`` for computing
        them once; median and 95th percentile of recognising a clip, in ms: ``inference_ms`` from its features,
        ``with_features_ms`` from its sound, ``hop_ms`` of a stream's next window; ``peak_mb`` of the process.

    Raises ExportError: with what the process said when it failed.
    """
    if min(threads, samples, clips) < 1:
        raise ExportError(f"threads, samples and clips must be at least 1, not {threads}, {samples} and {clips}")
    command = python("model_export.epoch_and_latency", bundle, threads, samples, clips)
    # As on a device: NumPy's own threads would only get in the way of so little work.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ExportError(f"{bundle} cannot be measured: {result.stderr.strip()[-4000:]}")
    figures: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return figures


def describe(figures: dict[str, Any], threads: int) -> list[str]:
    """Return lines for people on what :func:`measure` found."""
    train, features = figures["train_seconds_per_epoch"], figures["feature_seconds_per_epoch"]
    return [
        f"{figures['runtime']}, {threads} thread{'s' if threads > 1 else ''}, {figures['peak_mb']:.0f} MB at most",
        f"an epoch of {EPOCH:,} clips: {train:.3g} s, and once {features:.3g} s for their features",
        f"a clip: {figures['inference_ms_median']:.3g} ms from its features, "
        f"{figures['with_features_ms_median']:.3g} ms from its sound",
        f"a hop while listening: {figures['hop_ms_median']:.3g} ms",
    ]


def _train_seconds(runtime: ModelRuntime, samples: int) -> float:
    """Return the median time of an epoch of so many samples, in shuffled batches, after one that is not measured."""
    batch, capacity = runtime.manifest.batch, runtime.manifest.capacity
    generator = np.random.default_rng(0)
    x = generator.normal(size=(samples, *runtime.manifest.input_shape)).astype(np.float32)
    classes = generator.integers(0, min(_CLASSES, capacity), samples)
    targets = np.eye(capacity, dtype=np.float32)[classes]
    mask = (np.arange(capacity) < _CLASSES).astype(np.float32)

    def epoch() -> None:
        order = generator.permutation(samples)
        for start in range(0, samples, batch):
            rows = order[start : start + batch]
            runtime.train_step(x[rows], targets[rows], mask, learning_rate=_RATE)

    epoch()
    return statistics.median(_timed(epoch) for _ in range(_EPOCHS))


def _latencies_ms(runtime: ModelRuntime, clips: int) -> dict[str, float]:
    """Return median and 95th percentile of the three ways to recognise a clip, after one that is not measured."""
    settings = runtime.manifest.feature_settings
    features_of, sounds = open_front_end(settings), _sounds(settings)
    slide = open_sliding(settings, pace_of(DetectorConfig(), settings).hop_frames)
    mask = (np.arange(runtime.manifest.capacity) < _CLASSES).astype(np.float32)
    x = runtime.normalise(features_of(sounds))
    ways: dict[str, Callable[[int], object]] = {
        "inference": lambda i: runtime.predict(x[i % _SOUNDS][None], mask),
        "with_features": lambda i: runtime.predict(runtime.normalise(features_of(sounds[i % _SOUNDS][None])), mask),
        "hop": lambda i: runtime.predict(runtime.normalise(slide(sounds[i % _SOUNDS])[None]), mask),
    }
    figures = {}
    for name, way in ways.items():
        way(0)
        times = [1000 * _timed(lambda i=i, way=way: way(i)) for i in range(clips)]  # type: ignore[misc]
        figures[f"{name}_ms_median"] = float(np.median(times))
        figures[f"{name}_ms_p95"] = float(np.percentile(times, 95))
    return figures


def _feature_seconds(settings: FeatureSettings) -> float:
    """Return the median time of a clip's features, clips of which come many at a time."""
    features_of, sounds = open_front_end(settings), _sounds(settings)
    return statistics.median(_timed(lambda: features_of(sounds)) for _ in range(_EPOCHS)) / _SOUNDS


def _sounds(settings: FeatureSettings) -> Floats:
    """Return noise, float32 [8, clip_samples]."""
    return np.random.default_rng(1).normal(scale=0.1, size=(_SOUNDS, settings.clip_samples)).astype(np.float32)


def _timed(work: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peak_mb() -> float:
    """Return the most memory that this process ever held, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def main(bundle: Path, threads: int, samples: int, clips: int) -> None:
    """Measure, and print the figures."""
    runtime = ModelRuntime.open(bundle, threads)
    figures = {
        "runtime": installed_runtime(),
        "train_seconds_per_epoch": _train_seconds(runtime, samples) * EPOCH / samples,
        "feature_seconds_per_epoch": _feature_seconds(runtime.manifest.feature_settings) * EPOCH,
        **_latencies_ms(runtime, clips),
        "peak_mb": _peak_mb(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *(int(argument) for argument in sys.argv[2:5]))
    except AuricleError as failure:
        sys.exit(str(failure))
