"""Ordinary Keras layers that train on a device: each computes what the stock layer of the same name computes.

Their gradients are those of `operators.py`, so a model made of them trains with `fit` on a workstation and, exported,
with TensorFlow Lite's built-in operators.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from model_export.layers import operators
from model_export.layers.operators import Tensor

Variable = Any


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
        self.kernel = self._add_kernel("kernel", (*_pair(self.kernel_size), input_shape[-1], self.units))
        self.bias = self._add_bias() if self.use_bias else None

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, rows, columns, filters]."""
        kernel, bias = *tensors(self.kernel), tf.zeros(self.units) if self.bias is None else tensors(self.bias)[0]
        return operators.convolution(
            inputs, kernel, bias, _pair(self.strides), self.padding, self.activation, self.dilation_rate
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
        shape = (*_pair(self.kernel_size), input_shape[-1], 1)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, rows, columns, channels]."""
        return operators.depthwise_convolution(inputs, tensors(self.kernel)[0], self.padding)


class SeparableConv2D(Convolution):
    """A depthwise convolution and a pointwise one, with nothing between them."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, rows, columns, channels]."""
        channels = input_shape[-1]
        self.depthwise_kernel = self._add_kernel("depthwise_kernel", (*_pair(self.kernel_size), channels, 1))
        self.pointwise_kernel = self._add_kernel("pointwise_kernel", (1, 1, channels, self.units))
        self.bias = self._add_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, rows, columns, filters]."""
        depthwise, pointwise, bias = tensors(self.depthwise_kernel, self.pointwise_kernel, self.bias)
        y = operators.depthwise_convolution(inputs, depthwise, self.padding)
        return operators.convolution(y, pointwise, bias, (1, 1), "valid", self.activation)


def _pair(size: int | operators.Pair) -> operators.Pair:
    return (size, size) if isinstance(size, int) else size


def tensors(*variables: Variable) -> list[Tensor]:
    """Read variables now: a custom gradient must be given its weights as tensors."""
    return [tf.convert_to_tensor(keras.ops.convert_to_tensor(variable)) for variable in variables]
