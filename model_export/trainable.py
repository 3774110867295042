"""A network that trains on a device: one loss for every method of the fleet, as TensorFlow Lite signatures.

    L = -(1/B) sum_b sum_c t_bc log softmax(z_b / T)_c + proximal/2 ||w - w_anchor||^2

with soft, signed targets t (a zero row is padding), classes switched on by a mask, and momentum SGD exactly as
``keras.optimizers.SGD(momentum=...)``. Cross-entropy, distillation, FedProx (Li et al. 2020) and the methods of
docs/methods.md are choices of t and ``proximal``. Outputs may have axes before c, e.g. one of time, which the loss sums
over too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from model_export.layers.operators import Tensor

# Far below every logit, yet finite: -inf times a zero target would be NaN.
_OFF = -1e9
# TensorFlow Lite keeps a matrix as [outputs, inputs] and a kernel as [filters, rows, columns, channels].
# Weights that are stored so need no transposition in front of every single prediction.
_TO_STORED = {1: (0,), 2: (1, 0), 3: (2, 0, 1), 4: (3, 0, 1, 2)}
_FROM_STORED = {1: (0,), 2: (1, 0), 3: (1, 2, 0), 4: (1, 2, 3, 0)}


def weight_name(variable: keras.Variable) -> str:
    """Return ``layer/weight``, the name that a bundle gives a weight array."""
    return "/".join(variable.path.split("/")[-2:])


def _argument_name(name: str) -> str:
    """Return the name of a weight array among ``set_weights``' arguments, which allow no slash."""
    return name.replace("/", "_")


def _soft_cross_entropy(logits: Tensor, targets: Tensor, mask: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """Return L without its proximal term, and its gradient by the logits, [B, .., capacity]."""
    targets = targets * mask
    scores = tf.nn.log_softmax(_masked(logits, mask, temperature))
    rows = logits.shape[0]
    loss = tf.reduce_sum(targets * scores) * (-1.0 / rows)
    slope = tf.exp(scores) * tf.reduce_sum(targets, axis=len(targets.shape) - 1, keepdims=True) - targets
    return loss, slope * (1.0 / (rows * temperature))


def _masked(logits: Tensor, mask: Tensor, temperature: Tensor) -> Tensor:
    return logits * (1.0 / temperature) + (1.0 - mask) * _OFF


class Trainable:
    """A Keras model's weights, its optimiser's state, and the signatures of a bundle."""

    def __init__(self, model: keras.Model, batch: int) -> None:
        self._model = model
        self._trunk = keras.Model(model.inputs, model.layers[-1].input)
        self._batch = batch
        self.names = [weight_name(variable) for variable in model.trainable_variables]
        shapes = [variable.shape for variable in model.trainable_variables]
        stored = [tuple(shape[axis] for axis in _TO_STORED[len(shape)]) for shape in shapes]
        # All start as zeros: the initial weights stand in the bundle once, and `set_weights` brings them in.
        self._weights, self._anchors, self._velocities = (
            [tf.Variable(tf.zeros(shape)) for shape in stored] for _ in range(3)
        )
        self.state = tf.Module()
        self.state.variables_of_graph = [self._weights, self._anchors, self._velocities]

    def _read(self) -> list[Tensor]:
        """Weights in Keras's layout."""
        return [tf.transpose(w, _FROM_STORED[len(w.shape)]) for w in self._weights]

    def _apply(self, model: keras.Model, x: Tensor, weights: list[Tensor]) -> Tensor:
        return model.stateless_call(weights[: len(model.trainable_variables)], [], x)[0]

    def train(
        self,
        x: Tensor,
        targets: Tensor,
        mask: Tensor,
        learning_rate: Tensor,
        momentum: Tensor,
        temperature: Tensor,
        proximal: Tensor,
    ) -> dict[str, Tensor]:
        """Take one step of momentum SGD and return the loss before it."""
        weights = self._read()
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits = self._apply(self._model, x, weights)
        loss, slope = _soft_cross_entropy(logits, targets, mask, temperature)
        gradients = tape.gradient(logits, weights, output_gradients=slope)
        distance = 0.0
        for weight, anchor, velocity, gradient in zip(
            self._weights, self._anchors, self._velocities, gradients, strict=True
        ):
            drift = weight - anchor  # of the proximal term, whose gradient is `drift * proximal`
            distance += tf.reduce_sum(drift * drift)
            total = tf.transpose(gradient, _TO_STORED[len(gradient.shape)]) + drift * proximal
            speed = velocity * momentum - total * learning_rate
            velocity.assign(speed)
            weight.assign(weight + speed)
        return {"loss": loss + distance * proximal * 0.5}

    def predict(self, x: Tensor, mask: Tensor, temperature: Tensor) -> dict[str, Tensor]:
        """Return probabilities [n, .., capacity]."""
        logits = self._apply(self._model, x, self._read())
        return {"probabilities": tf.nn.softmax(_masked(logits, mask, temperature))}

    def input_gradient(self, x: Tensor, targets: Tensor, mask: Tensor, temperature: Tensor) -> dict[str, Tensor]:
        """Return dL/dx [B, frames, coefficients] and L, without the proximal term."""
        with tf.GradientTape() as tape:
            tape.watch(x)
            logits = self._apply(self._model, x, self._read())
        loss, slope = _soft_cross_entropy(logits, targets, mask, temperature)
        return {"gradient": tape.gradient(logits, x, output_gradients=slope), "loss": loss}

    def embed(self, x: Tensor) -> dict[str, Tensor]:
        """Return the head's input [n, .., embedding]."""
        return {"embedding": self._apply(self._trunk, x, self._read())}

    def get_weights(self) -> dict[str, Tensor]:
        """Return every weight array by name, in Keras's layout."""
        return dict(zip(self.names, self._read(), strict=True))

    def set_weights(self, *arrays: Tensor) -> dict[str, Tensor]:
        """Replace the weights, make them the proximal term's anchor, and stop the optimiser's momentum."""
        for array, weight, anchor, velocity in zip(arrays, self._weights, self._anchors, self._velocities, strict=True):
            value = tf.transpose(array, _TO_STORED[len(array.shape)])
            weight.assign(value)
            anchor.assign(value)
            velocity.assign(tf.zeros_like(value))
        return {"done": tf.constant(1.0)}

    def signatures(self) -> dict[str, Any]:
        """Return every signature as a concrete function."""
        frames, coefficients = self._model.input_shape[1:]
        outputs = self._model.output_shape[1:]

        def spec(name: str, *shape: int | None) -> tf.TensorSpec:
            return tf.TensorSpec(shape, tf.float32, name)

        x = spec("x", self._batch, frames, coefficients)
        some = spec("x", None, frames, coefficients)
        mask, temperature = spec("mask", outputs[-1]), spec("temperature")
        targets = spec("targets", self._batch, *outputs)
        arrays = [
            spec(_argument_name(name), *variable.shape)
            for name, variable in zip(self.names, self._model.trainable_variables, strict=True)
        ]
        arguments: dict[Callable[..., Any], list[tf.TensorSpec]] = {
            self.train: [x, targets, mask, spec("learning_rate"), spec("momentum"), temperature, spec("proximal")],
            self.predict: [some, mask, temperature],
            self.input_gradient: [x, targets, mask, temperature],
            self.embed: [some],
            self.get_weights: [],
            self.set_weights: arrays,
        }
        return {
            f.__name__: tf.function(f, autograph=False).get_concrete_function(*specs) for f, specs in arguments.items()
        }
