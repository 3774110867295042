"""Trains a bundle on the batches of the parity test, in a process that has never seen TensorFlow.

Run as `python tests/parity_device.py FOLDER NAME...`; prints one JSON object: the differences from FOLDER/NAME.npz.
"""

import json
import sys
from pathlib import Path

import numpy as np
from parity_variants import PADDED, PROXIMAL, RATE, STEPS, TEMPERATURE, batches, mask

from edge_client.model_runtime import ModelRuntime


def difference(ours, theirs):
    """Largest difference, relative to the largest value."""
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-12))


def compare(folder, name):
    """The worst differences of gradients, weights and everything else."""
    runtime = ModelRuntime.open(folder / f"{name}.auricle")
    theirs = np.load(folder / f"{name}.npz")
    (x, targets), on = batches(), mask()
    start = runtime.get_weights()
    options = {"learning_rate": 1.0, "momentum": 0.0, "temperature": TEMPERATURE}
    losses = {"loss": (runtime.train_step(x[0], targets[0], on, **options), theirs["loss"])}
    moved = runtime.get_weights()
    gradients = {w: difference(start[w] - moved[w], theirs[f"gradient:{w}"]) for w in start}
    runtime.set_weights(start)
    slope, total = runtime.input_gradient(x[0], targets[0], on, TEMPERATURE)
    gradients["x"] = difference(slope / len(x[0]), theirs["input_gradient"])
    losses["input_gradient"] = (total / len(x[0]), theirs["loss"])
    losses["probabilities"] = (runtime.predict(x[0], on, TEMPERATURE), theirs["probabilities"])
    options = {"learning_rate": RATE, "temperature": TEMPERATURE, "proximal": PROXIMAL}
    rows = len(x[0]) - PADDED
    scale = np.float32(rows / len(x[0]))  # the runtime means over the rows it is given, the reference over the batch
    course = [runtime.train_step(x[i][:rows], targets[i][:rows] * scale, on, **options) for i in range(STEPS)]
    losses["course"] = (np.array(course), theirs["losses"])
    end = runtime.get_weights()
    return {
        "runtime": runtime.runtime_name,
        "gradients": gradients,
        "weights": {w: difference(end[w], theirs[f"weights:{w}"]) for w in end},
        "values": {what: difference(*pair) for what, pair in losses.items()},
    }


if __name__ == "__main__":
    print(json.dumps({name: compare(Path(sys.argv[1]), name) for name in sys.argv[2:]}))
