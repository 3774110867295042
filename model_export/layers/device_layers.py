"""Layers that train on a device: each computes what Keras's own layer of the same name computes.

Their gradients are those of `operators.py`, so a model made of them trains with `fit` on a workstation and, exported,
with TensorFlow Lite's built-in operators. Those of matrix products and of softmax need nothing anew.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras.layers import Add as Add

from model_export.layers import operators
from model_export.layers.operators import Gradient, Tensor, Variable, pair, tensors
from model_export.layers.sequence import GRU as GRU
from model_export.layers.sequence import Bidirectional as Bidirectional
from model_export.layers.sequence import MultiHeadAttention as MultiHeadAttention


class Reshape(keras.layers.Layer):  # type: ignore[misc]
    """Give every sample a shape, without computing the batch's size on the device."""

    def __init__(self, target_shape: tuple[int, ...], **options: object) -> None:
        super().__init__(**options)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Tensor) -> Tensor:
        """Reshape [n, ...] to [n, *target_shape]."""
        return tf.reshape(inputs, [-1, *self.target_shape])


class Flatten(keras.layers.Layer):  # type: ignore[misc]
    """Give every sample one axis."""

    def call(self, inputs: Tensor) -> Tensor:
        """Reshape [n, ...] to [n, size]."""
        return tf.reshape(inputs, [-1, inputs.shape[1:].num_elements()])


class ReLU(keras.layers.Layer):  # type: ignore[misc]
    """The larger of a value and 0."""

    def call(self, inputs: Tensor) -> Tensor:
        """Keep the shape."""
        return operators.relu(inputs)


class _Weighted(keras.layers.Layer):  # type: ignore[misc]
    """What layers with a kernel, a bias and an activation share."""

    def __init__(self, units: int, activation: str = "linear", **options: object) -> None:
        super().__init__(**options)
        self.units = units
        self.activation = activation

    def _add_kernel(self, name: str, shape: tuple[int, ...]) -> Variable:
        return self.add_weight(name=name, shape=shape, initializer="glorot_uniform")

    def _add_bias(self) -> Variable:
        return self.add_weight(name="bias", shape=(self.units,), initializer="zeros")


class Dense(_Weighted):
    """A fully connected layer, of every clip or of every step."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, size] or [n, steps, size]."""
        self.kernel = self._add_kernel("kernel", (input_shape[-1], self.units))
        self.bias = self._add_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, size] to [n, units], or [n, steps, size] to [n, steps, units]."""
        kernel, bias = tensors(self.kernel, self.bias)
        if len(inputs.shape) == 2:
            return operators.dense(inputs, kernel, bias, self.activation)
        y = operators.dense(tf.reshape(inputs, [-1, inputs.shape[-1]]), kernel, bias, self.activation)
        return tf.reshape(y, [-1, *inputs.shape[1:-1], self.units])


class Convolution(_Weighted):
    """What convolutions share: a kernel and how they treat edges, ``same`` or ``valid``."""

    def __init__(
        self,
        filters: int,
        kernel_size: int | operators.Pair,
        padding: str = "valid",
        activation: str = "linear",
        **options: object,
    ) -> None:
        super().__init__(filters, activation, **options)
        self.kernel_size = kernel_size
        self.padding = padding


class Conv2D(Convolution):
    """A convolution, with or without a bias; its kernel can be longer one way than the other."""

    def __init__(
        self,
        filters: int,
        kernel_size: int | operators.Pair,
        strides: int | operators.Pair = 1,
        dilation_rate: int = 1,
        use_bias: bool = True,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(filters, kernel_size, **options)
        self.strides = strides
        self.dilation_rate = dilation_rate
        self.use_bias = use_bias

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, rows, columns, channels]."""
        self.kernel = self._add_kernel("kernel", (*pair(self.kernel_size), input_shape[-1], self.units))
        self.bias = self._add_bias() if self.use_bias else None

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, rows, columns, filters]."""
        kernel, bias = *tensors(self.kernel), tf.zeros(self.units) if self.bias is None else tensors(self.bias)[0]
        return operators.convolution(
            inputs, kernel, bias, pair(self.strides), self.padding, self.activation, self.dilation_rate
        )


class DepthwiseConv2D(keras.layers.Layer):  # type: ignore[misc]
    """A convolution of every channel by itself, without a bias."""

    def __init__(self, kernel_size: int, padding: str = "valid", use_bias: bool = False, **options: object) -> None:
        super().__init__(**options)
        if use_bias:
            raise ValueError("DepthwiseConv2D trains on a device with use_bias=False alone")
        self.kernel_size = kernel_size
        self.padding = padding

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, rows, columns, channels]."""
        shape = (*pair(self.kernel_size), input_shape[-1], 1)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, rows, columns, channels]."""
        return operators.depthwise_convolution(inputs, tensors(self.kernel)[0], self.padding)


class SeparableConv2D(Convolution):
    """A depthwise convolution and a pointwise one, with nothing between them."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, rows, columns, channels]."""
        channels = input_shape[-1]
        self.depthwise_kernel = self._add_kernel("depthwise_kernel", (*pair(self.kernel_size), channels, 1))
        self.pointwise_kernel = self._add_kernel("pointwise_kernel", (1, 1, channels, self.units))
        self.bias = self._add_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, rows, columns, filters]."""
        depthwise, pointwise, bias = tensors(self.depthwise_kernel, self.pointwise_kernel, self.bias)
        y = operators.depthwise_convolution(inputs, depthwise, self.padding)
        return operators.convolution(y, pointwise, bias, (1, 1), "valid", self.activation)


class Conv1D(Convolution):
    """A convolution over time."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, steps, channels]."""
        self.kernel = self._add_kernel("kernel", (pair(self.kernel_size)[0], input_shape[-1], self.units))
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


class AveragePooling2D(keras.layers.Layer):  # type: ignore[misc]
    """Average over all rows."""

    def __init__(self, pool_size: operators.Pair, **options: object) -> None:
        super().__init__(**options)
        self.pool_size = tuple(pool_size)

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, 1, columns, channels]."""
        if self.pool_size != (inputs.shape[1], 1):
            raise ValueError(f"AveragePooling2D trains on a device over all rows alone, not with {self.pool_size}")
        return operators.average_rows(inputs)


class GlobalAveragePooling2D(keras.layers.Layer):  # type: ignore[misc]
    """Average over all rows and columns."""

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, channels]."""
        return operators.global_average(inputs)


class MaxPooling1D(keras.layers.Layer):  # type: ignore[misc]
    """The larger of every two steps; an odd last one is left out."""

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, steps, channels] to [n, steps // 2, channels]."""
        return operators.max_pool_pairs(inputs)


class LayerNormalization(keras.layers.Layer):  # type: ignore[misc]
    """Normalise every position of every clip over its channels; scale and offset of each channel can be left out."""

    by_position = True

    def __init__(self, center: bool = True, scale: bool = True, **options: object) -> None:
        super().__init__(**options)
        self.center = center
        self.scale = scale

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, ..., channels]."""
        channels = input_shape[-1]
        self.gamma = self.add_weight(name="gamma", shape=(channels,), initializer="ones") if self.scale else None
        self.beta = self.add_weight(name="beta", shape=(channels,), initializer="zeros") if self.center else None

    def call(self, inputs: Tensor) -> Tensor:
        """Normalise [n, ..., channels]."""
        scale = tf.ones(inputs.shape[-1]) if self.gamma is None else tensors(self.gamma)[0]
        offset = tf.zeros(inputs.shape[-1]) if self.beta is None else tensors(self.beta)[0]
        return operators.normalise(inputs, scale, offset, by_position=self.by_position)


class GroupNormalization(LayerNormalization):
    """Normalise every clip as a whole."""

    by_position = False

    def __init__(self, groups: int = 1, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        if groups != 1:
            raise ValueError(f"GroupNormalization trains on a device with groups=1, not {groups}")
