"""Gated recurrent units (Cho et al. 2014) and attention (Vaswani et al. 2017) that train on a device.

The recurrent form is that of Keras and cuDNN (`reset_after=True`): h' = z h + (1 - z) tanh(x_h + r (h R_h + b_h)),
gates z, r. One matrix product a step is left; those of the input and of the weights' gradients are taken over all
steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from model_export.layers import operators
from model_export.layers.operators import Gradient, Tensor, tensors

_PROJECTIONS = ("query", "key", "value", "output")


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


class MultiHeadAttention(keras.layers.Layer):  # type: ignore[misc]
    """Scaled dot-product attention without biases, of which the keys' could learn nothing: softmax takes it away.

    Its weights are Keras's with the axis of heads folded into the next one.
    """

    def __init__(self, num_heads: int, key_dim: int, use_bias: bool = False, **options: object) -> None:
        super().__init__(**options)
        if use_bias:
            raise ValueError("MultiHeadAttention trains on a device with use_bias=False alone")
        self.num_heads = num_heads
        self.key_dim = key_dim

    def build(self, query_shape: tuple[int, ...], value_shape: tuple[int, ...]) -> None:
        """Create the weights for queries [n, places, width] and values [n, steps, width]."""
        inner, width = self.num_heads * self.key_dim, query_shape[-1]
        shapes = ((width, inner), (value_shape[-1], inner), (value_shape[-1], inner), (inner, width))
        self._kernels = {
            name: self.add_weight(name=name, shape=shape, initializer="glorot_uniform")
            for name, shape in zip(_PROJECTIONS, shapes, strict=True)
        }

    def call(self, query: Tensor, value: Tensor) -> Tensor:
        """Map queries [n, places, width] and values, also the keys, [n, steps, width] to [n, places, width]."""
        queries, keys, values = (
            self._by_head(self._project(name, x)) for name, x in zip(_PROJECTIONS, (query, value, value), strict=False)
        )
        scores = tf.matmul(queries * self.key_dim**-0.5, keys, transpose_b=True)
        seen = tf.transpose(tf.matmul(tf.nn.softmax(scores), values), [0, 2, 1, 3])
        return self._project("output", tf.reshape(seen, [-1, query.shape[1], self.num_heads * self.key_dim]))

    def _project(self, name: str, x: Tensor) -> Tensor:
        kernel = tensors(self._kernels[name])[0]
        y = operators.dense(tf.reshape(x, [-1, x.shape[-1]]), kernel, tf.zeros(kernel.shape[1]), "linear")
        return tf.reshape(y, [-1, x.shape[1], kernel.shape[1]])

    def _by_head(self, x: Tensor) -> Tensor:
        return tf.transpose(tf.reshape(x, [-1, x.shape[1], self.num_heads, self.key_dim]), [0, 2, 1, 3])


class SinusoidalPositions(keras.layers.Layer):  # type: ignore[misc]
    """Adds to every step where it stands (Vaswani et al. 2017, section 3.5); Keras has no layer for it."""

    def call(self, inputs: Tensor) -> Tensor:
        """Keep the shape [n, steps, width]."""
        _, steps, width = inputs.shape
        pair = np.arange(width) // 2
        angles = np.arange(steps)[:, None] / 10_000.0 ** (2 * pair / width)
        waves = tf.constant(np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles)), tf.float32)

        def run(x: Tensor) -> tuple[Tensor, Gradient]:
            return x + waves, lambda dy: dy

        return tf.custom_gradient(run)(inputs)
