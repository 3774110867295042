"""What a stock Keras model makes of the batches: Keras's own layers and optimiser, TensorFlow's own gradients.

Run as `python -m benchmarks.parity.reference FOLDER STEPS BATCH NAME...`; it writes FOLDER/NAME.npz, and
FOLDER/NAME.auricle where that is not there yet.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.parity.variants import MOMENTUM, PROXIMAL, TEMPERATURE, batches, mask, rate, specification
from fleet_protocol.bundle.bundle_file import Bundle, Manifest, read_bundle
from fleet_protocol.numbers.arrays import Floats
from model_export.bundle import build_bundle, build_network

Tensor = Any


def _objective(model: keras.Model, x: Tensor, targets: Tensor, anchor: list[Floats] | None = None) -> Tensor:
    """Return the loss of docs/models.md, written down anew: only the classes that are on are ever looked at."""
    on = np.flatnonzero(mask())
    logits = tf.gather(model(x, training=True), on, axis=-1) / TEMPERATURE
    loss = -tf.reduce_sum(tf.gather(targets, on, axis=-1) * tf.nn.log_softmax(logits)) / len(x)
    if anchor is not None:
        distances = [tf.reduce_sum((w.value - a) ** 2) for w, a in zip(model.trainable_variables, anchor, strict=True)]
        loss += PROXIMAL / 2 * tf.add_n(distances)
    return loss


def predict(model: keras.Model, x: Tensor) -> Floats:
    """Return probabilities of the classes that are on; 0 for the others."""
    on = np.flatnonzero(mask())
    logits = model(x)
    probabilities = np.zeros(logits.shape, np.float32)
    probabilities[..., on] = tf.nn.softmax(tf.gather(logits, on, axis=-1) / TEMPERATURE)
    return probabilities


def train(model: keras.Model, x: Tensor, targets: Tensor) -> list[float]:
    """Take a step for each batch of a plain tape with Keras's momentum SGD; return the losses."""
    optimizer = keras.optimizers.SGD(rate(model.name), momentum=MOMENTUM)
    variables = model.trainable_variables
    optimizer.build(variables)
    anchor = [variable.numpy() for variable in variables]

    def step(rows: Tensor, wanted: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            loss = _objective(model, rows, wanted, anchor)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    compiled = tf.function(step)
    return [float(compiled(x[i], targets[i])) for i in range(len(x))]


def reference(model: keras.Model, names: dict[str, tuple[int, ...]], x: Tensor, targets: Tensor) -> dict[str, Any]:
    """Return gradients of the first step, and losses and weights after all steps, by the bundle's names and shapes.

    Keras calls some of its weights otherwise, and gives some of them more axes, but their order is the same.
    """
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = _objective(model, x[0], targets[0])
    slopes = tape.gradient(loss, [x, *[variable.value for variable in model.trainable_variables]])
    result = {"loss": loss.numpy(), "input_gradient": slopes[0][0].numpy(), "probabilities": predict(model, x[0])}
    for (name, shape), slope in zip(names.items(), slopes[1:], strict=True):
        result[f"gradient:{name}"] = slope.numpy().reshape(shape)
    result["losses"] = np.array(train(model, x, targets))
    for (name, shape), array in zip(names.items(), model.get_weights(), strict=True):
        result[f"weights:{name}"] = array.reshape(shape)
    return result


def _shapes_in_order(manifest: Manifest) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight array by name, input side first."""
    return {name: manifest.weight_shapes[name] for layer in manifest.layers for name in layer.weights}


def _stock_model(name: str, bundle: Bundle) -> keras.Model:
    """Build a variant of Keras's own layers, with the bundle's weights."""
    model = build_network(dataclasses.replace(specification(name, bundle.manifest.batch), seed=1), stock=True)
    given = zip(_shapes_in_order(bundle.manifest), model.get_weights(), strict=True)
    model.set_weights([bundle.weights[weight].reshape(array.shape) for weight, array in given])
    return model


def main(folder: Path, steps: int, batch: int, names: list[str]) -> None:
    """Write reference and bundle of every named variant."""
    for name in names:
        path = folder / f"{name}.auricle"
        if not path.exists():
            path.write_bytes(build_bundle(specification(name, batch)))
        bundle = read_bundle(path)
        manifest = bundle.manifest
        x, targets = (tf.constant(array) for array in batches(manifest.batch, steps, manifest))
        model = _stock_model(name, bundle)
        np.savez(folder / f"{name}.npz", **reference(model, _shapes_in_order(bundle.manifest), x, targets))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
