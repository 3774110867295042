"""Trains bundles on the batches, in a process that never sees TensorFlow, and compares with the references.

Run as `python -m benchmarks.parity.device FOLDER STEPS NAME...`; it prints one JSON object of differences.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parity.variants import MOMENTUM, PROXIMAL, TEMPERATURE, batches, mask, padded, rate
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.numbers.arrays import Array, Floats
from fleet_protocol.numbers.tensors import Arrays


def difference(ours: Array | float, theirs: Array) -> float:
    """Return the largest difference, relative to the largest value."""
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-12))


def compare(folder: Path, steps: int, name: str) -> dict[str, Any]:
    """Return the differences in gradients, final weights and their movement, losses and probabilities."""
    runtime = ModelRuntime.open(folder / f"{name}.auricle")
    theirs = np.load(folder / f"{name}.npz")
    (x, targets), on = batches(runtime.manifest.batch, steps, runtime.manifest), mask()
    start = runtime.get_weights()
    values = {"probabilities": difference(runtime.predict(x[0], on, TEMPERATURE), theirs["probabilities"])}
    loss = runtime.train_step(x[0], targets[0], on, learning_rate=1.0, momentum=0.0, temperature=TEMPERATURE)
    values["loss"] = difference(loss, theirs["loss"])
    moved = runtime.get_weights()
    gradients = _gradient_differences(
        runtime.manifest, {weight: start[weight] - moved[weight] for weight in start}, theirs
    )
    runtime.set_weights(start)
    slope, total = runtime.input_gradient(x[0], targets[0], on, TEMPERATURE)
    gradients["x"] = difference(slope / len(x[0]), theirs["input_gradient"])
    values["input_gradient's loss"] = difference(total / len(x[0]), theirs["loss"])
    values["losses"] = difference(np.array(train(runtime, rate(name), x, targets)), theirs["losses"])
    end = runtime.get_weights()
    expected = {weight: theirs[f"weights:{weight}"] for weight in end}
    weights, movements = {}, {}
    for layer in runtime.manifest.layers:
        first, ours, wanted = (
            np.concatenate([arrays[weight].ravel() for weight in layer.weights]) for arrays in (start, end, expected)
        )
        weights[layer.name] = difference(ours, wanted)
        movements[layer.name] = difference(ours - first, wanted - first)
    return {"gradients": gradients, "weights": weights, "movements": movements, "values": values}


def _gradient_differences(manifest: Manifest, ours: Arrays, theirs: Mapping[str, Array]) -> dict[str, float]:
    """Return the difference in every array's gradient, relative to its largest value.

    Where that is below a tenth of its layer's, as with an attention's keys at the start, that tenth stands instead:
    such a gradient is what is left when larger ones cancel.
    """
    differences = {}
    for layer in manifest.layers:
        wanted = {weight: theirs[f"gradient:{weight}"] for weight in layer.weights}
        tenth = 0.1 * max(float(np.abs(array).max()) for array in wanted.values())
        for weight, array in wanted.items():
            least = max(float(np.abs(array).max()), tenth, 1e-12)
            differences[weight] = float(np.abs(ours[weight] - array).max()) / least
    return differences


def train(runtime: ModelRuntime, learning_rate: float, x: Floats, targets: Floats) -> list[float]:
    """Take the steps, leaving the padding to the runtime; return the losses."""
    rows = x.shape[1] - padded(x.shape[1])
    scale = np.float32(rows / x.shape[1])  # the runtime means over the rows it is given, the reference over the batch
    by = {"learning_rate": learning_rate, "momentum": MOMENTUM, "temperature": TEMPERATURE, "proximal": PROXIMAL}
    return [runtime.train_step(x[i, :rows], targets[i, :rows] * scale, mask(), **by) for i in range(len(x))]


if __name__ == "__main__":
    folder, steps, *names = sys.argv[1:]
    print(json.dumps({name: compare(Path(folder), int(steps), name) for name in names}))
