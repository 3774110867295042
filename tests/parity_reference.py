"""What a stock Keras model makes of the same batches as a bundle: the oracle of the parity test.

Run as `python tests/parity_reference.py FOLDER NAME...`; it writes FOLDER/NAME.auricle and FOLDER/NAME.npz.
Layers are Keras's own, gradients TensorFlow's own, the optimiser is keras.optimizers.SGD.
"""

import dataclasses
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from parity_variants import BATCH, CAPACITY, PROXIMAL, RATE, STEPS, TEMPERATURE, batches, mask, variant

from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import preset
from model_export import zoo
from model_export.bundle import build_bundle, weights_of
from model_export.normalisation import Normalisation
from model_export.specification import Specification


def objective(model, x, targets, temperature, anchor=None):
    """The loss of docs/models.md, written down anew with TensorFlow's own functions."""
    on = np.flatnonzero(mask())
    logits = tf.gather(model(x, training=True), on, axis=1) / temperature
    loss = -tf.reduce_mean(tf.reduce_sum(tf.gather(targets, on, axis=1) * tf.nn.log_softmax(logits), axis=1))
    if anchor is not None:
        distances = [tf.reduce_sum((w.value - a) ** 2) for w, a in zip(model.trainable_variables, anchor, strict=True)]
        loss += PROXIMAL / 2 * tf.add_n(distances)
    return loss


def reference(model):
    """Gradients at the first step, and the weights and losses after every way of training."""
    names = list(weights_of(model))
    start = model.get_weights()
    x, targets = (tf.constant(array) for array in batches())
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = objective(model, x[0], targets[0], TEMPERATURE)
    gradients = tape.gradient(loss, [x, *[v.value for v in model.trainable_variables]])
    result = {"loss": loss.numpy(), "input_gradient": gradients[0][0].numpy()}
    result |= {f"gradient:{name}": g.numpy() for name, g in zip(names, gradients[1:], strict=True)}
    result["probabilities"] = predict(model, x[0])
    losses = train(model, x, targets, start)
    result |= {f"weights:{name}": w for name, w in zip(names, model.get_weights(), strict=True)}
    return result | {"losses": np.array(losses)}


def predict(model, x):
    """Probabilities of the classes that are on; 0 for the others."""
    on = np.flatnonzero(mask())
    probabilities = np.zeros((len(x), CAPACITY), np.float32)
    probabilities[:, on] = tf.nn.softmax(tf.gather(model(x), on, axis=1) / TEMPERATURE)
    return probabilities


def train(model, x, targets, anchor):
    """STEPS steps of a plain tape with Keras's momentum SGD."""
    optimizer = keras.optimizers.SGD(RATE, momentum=0.9)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(rows, wanted):
        with tf.GradientTape() as tape:
            loss = objective(model, rows, wanted, TEMPERATURE, anchor)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, [v.value for v in variables]), variables, strict=True))
        return loss

    return [float(step(x[i], targets[i])) for i in range(STEPS)]


def main(folder, names):
    """Write bundle and reference of every named variant."""
    settings = preset("gudur")
    for name in names:
        specification = Specification(
            settings=settings, normalisation=Normalisation.default(settings), capacity=CAPACITY, batch=BATCH,
            **variant(name),
        )  # fmt: skip
        path = folder / f"{name}.auricle"
        path.write_bytes(build_bundle(specification))
        model = zoo.build(dataclasses.replace(specification, seed=1), stock=True)
        weights = read_bundle(path).weights
        model.set_weights([weights[weight] for weight in weights_of(model)])
        np.savez(folder / f"{name}.npz", **reference(model))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
