"""Keras layers over time that train on a device: convolutions, cuts and gated recurrent units.

As those of `feed_forward.py`, each computes what the stock layer of the same name computes.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from model_export.layers import operators
from model_export.layers.feed_forward import Convolution, tensors
from model_export.layers.operators import Gradient, Tensor
from model_export.layers.recurrence import gru


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

    def get_config(self) -> dict[str, Any]:
        """Return what the layer is built from again."""
        return {**super().get_config(), "cropping": self.cropping}


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

    def get_config(self) -> dict[str, Any]:
        """Return what the layer is built from again."""
        options = {"return_sequences": self.return_sequences, "go_backwards": self.go_backwards}
        return {**super().get_config(), "units": self.units, **options}


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
