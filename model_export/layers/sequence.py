"""Keras layers over time that train on a device: convolutions, cuts and gated recurrent units (Cho et al. 2014).

As those of `feed_forward.py`, each computes what the stock layer of the same name computes. The unit's form is that of
Keras and cuDNN (`reset_after=True`): h' = z h + (1 - z) tanh(x_h + r (h R_h + b_h)), gates z, r. One matrix product a
step is left; those of the input and of the weights' gradients are taken over all steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from model_export.layers import operators
from model_export.layers.feed_forward import Convolution, tensors
from model_export.layers.operators import Gradient, Tensor


@dataclass(frozen=True)
class _Step:
    """What the gradient needs of one step; all [n, units]."""

    before: Tensor
    update: Tensor
    reset: Tensor
    candidate: Tensor
    recalled: Tensor


def gru(
    x: Tensor, kernel: Tensor, recurrent_kernel: Tensor, bias: Tensor, *, backwards: bool, every_step: bool
) -> Tensor:
    """Run over [n, steps, inputs] from a state of zeros, forwards or backwards in time.

    Weights are as Keras has them: [inputs, 3 units], [units, 3 units] and [2, 3 units], gates in the order z, r, h.

    Returns:
        Every state [n, steps, units], in the order of the input, or only the one reached last [n, units].
    """
    steps, inputs = x.shape[1:]
    units = recurrent_kernel.shape[0]
    order = list(range(steps))[:: -1 if backwards else 1]

    def run(x: Tensor, kernel: Tensor, recurrent_kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        input_bias, recurrent_bias = tf.unstack(bias)
        rows = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, inputs])
        projected = tf.nn.bias_add(tf.matmul(rows, kernel), input_bias)
        by_time = tf.unstack(tf.reshape(projected, [steps, -1, 3 * units]))
        state = tf.zeros_like(by_time[0][:, :units])
        records: dict[int, _Step] = {}
        states: dict[int, Tensor] = {}
        for t in order:
            recurrent = tf.nn.bias_add(tf.matmul(state, recurrent_kernel), recurrent_bias)
            records[t] = _step(by_time[t], recurrent, state)
            state = states[t] = _next(records[t])

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            by_input, by_state = _gates_gradients(dy, records, order, recurrent_kernel, every_step)
            slopes, recurrent = tf.concat(by_input, 0), tf.concat(by_state, 0)
            dx = tf.reshape(tf.matmul(slopes, kernel, transpose_b=True), [steps, -1, inputs])
            before = tf.concat([records[t].before for t in range(steps)], 0)
            return (
                tf.transpose(dx, [1, 0, 2]),
                tf.matmul(rows, slopes, transpose_a=True),
                tf.matmul(before, recurrent, transpose_a=True),
                tf.stack([tf.reduce_sum(slopes, 0), tf.reduce_sum(recurrent, 0)]),
            )

        return tf.stack([states[t] for t in range(steps)], axis=1) if every_step else state, gradient

    return tf.custom_gradient(run)(x, kernel, recurrent_kernel, bias)


def _step(given: Tensor, recurrent: Tensor, before: Tensor) -> _Step:
    """Compute gates and candidate from the projections of input and state, both [n, 3 units]."""
    units = before.shape[-1]
    given_gates, given_candidate = tf.split(given, [2 * units, units], axis=-1)
    recurrent_gates, recalled = tf.split(recurrent, [2 * units, units], axis=-1)
    update, reset = tf.split(tf.sigmoid(given_gates + recurrent_gates), 2, axis=-1)
    return _Step(before, update, reset, tf.tanh(given_candidate + reset * recalled), recalled)


def _next(step: _Step) -> Tensor:
    return step.candidate + step.update * (step.before - step.candidate)


def _gates_gradients(
    dy: Tensor, records: dict[int, _Step], order: list[int], recurrent_kernel: Tensor, every_step: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Go back through time: slopes of the input's and of the state's projection, [n, 3 units] for each step."""
    outputs = tf.unstack(dy, num=len(order), axis=1) if every_step else []
    slope = outputs[order[-1]] if every_step else dy
    by_input: list[Tensor] = [None] * len(order)
    by_state: list[Tensor] = [None] * len(order)
    for position, t in reversed(list(enumerate(order))):
        step = records[t]
        kept = slope * step.update
        candidate = (slope - kept) * (1.0 - step.candidate * step.candidate)
        update = (kept - kept * step.update) * (step.before - step.candidate)
        reset = candidate * step.recalled * (step.reset - step.reset * step.reset)
        by_input[t] = tf.concat([update, reset, candidate], -1)
        by_state[t] = tf.concat([update, reset, candidate * step.reset], -1)
        if position:
            slope = kept + tf.matmul(by_state[t], recurrent_kernel, transpose_b=True)
            if every_step:
                slope += outputs[order[position - 1]]
    return by_input, by_state


class Conv1D(Convolution):
    """A convolution over time."""

    def __init__(self, filters: int, kernel_size: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(filters, kernel_size, **options)
        self.steps = kernel_size

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, steps, channels]."""
        self.kernel = self._add_kernel("kernel", (self.steps, input_shape[-1], self.units))
        self.bias = self._add_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, steps, channels] to [n, steps, filters]."""
        kernel, bias = tensors(self.kernel, self.bias)
        images, kernels = tf.expand_dims(inputs, 2), tf.expand_dims(kernel, 1)
        y = operators.convolution(images, kernels, bias, (1, 1), self.padding, self.activation)
        return tf.reshape(y, [-1, y.shape[1], self.units])


class Cropping1D(keras.layers.Layer):  # type: ignore[misc]
    """Leave out steps at the start and at the end."""

    def __init__(self, cropping: operators.Pair, **options: object) -> None:
        super().__init__(**options)
        self.cropping = tuple(cropping)

    def call(self, inputs: Tensor) -> Tensor:
        """Cut [n, steps, channels] along the steps."""
        before, behind = self.cropping
        steps = inputs.shape[1]

        def run(x: Tensor) -> tuple[Tensor, Gradient]:
            return x[:, before : steps - behind], lambda dy: tf.pad(dy, [(0, 0), (before, behind), (0, 0)])

        return tf.custom_gradient(run)(inputs)


class GRU(keras.layers.Layer):  # type: ignore[misc]
    """A gated recurrent unit."""

    def __init__(
        self, units: int, return_sequences: bool = False, go_backwards: bool = False, **options: object
    ) -> None:
        super().__init__(**options)
        self.units = units
        self.return_sequences = return_sequences
        self.go_backwards = go_backwards

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, steps, channels], as Keras starts them."""
        gates = 3 * self.units
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], gates), initializer="glorot_uniform")
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, gates), initializer="orthogonal"
        )
        self.bias = self.add_weight(name="bias", shape=(2, gates), initializer="zeros")

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, steps, channels] to the last state [n, units], or to every state [n, steps, units]."""
        weights = tensors(self.kernel, self.recurrent_kernel, self.bias)
        return gru(inputs, *weights, backwards=self.go_backwards, every_step=self.return_sequences)


class Bidirectional(keras.layers.Layer):  # type: ignore[misc]
    """A gated recurrent unit and its twin that runs backwards in time, side by side."""

    def __init__(self, layer: GRU, **options: object) -> None:
        super().__init__(**options)
        config = layer.get_config()
        self.forward_layer = GRU.from_config({**config, "name": f"forward_{layer.name}"})
        self.backward_layer = GRU.from_config({**config, "name": f"backward_{layer.name}", "go_backwards": True})

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights of both for inputs [n, steps, channels]."""
        self.forward_layer.build(input_shape)
        self.backward_layer.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, steps, channels] to [n, 2 units] or [n, steps, 2 units], forward states first."""
        return tf.concat([self.forward_layer(inputs), self.backward_layer(inputs)], -1)
