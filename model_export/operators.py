"""Convolutions whose gradients TensorFlow Lite can run: built-in operators alone, right on every runtime.

TensorFlow's own gradients need Flex operators (`ReluGrad`, `Conv2DBackpropFilter`, ...), which no pip wheel of the
runtime holds. Those here are present, and fast on ARMv7; docs/models.md has the figures behind each choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

Tensor = Any
Pair = tuple[int, int]
Gradient = Callable[..., Any]
Shape = Any  # numbers, or a tensor of them

# Large enough to lift every normal float32 above 1, so that clipping to [-1, 1] leaves the sign.
_HUGE = 1e30


def activate(z: Tensor, activation: str) -> Tensor:
    """Apply `relu`, `softmax` (over the last axis) or `linear`."""
    if activation == "relu":
        return tf.nn.relu(z)
    return tf.nn.softmax(z) if activation == "softmax" else z


def activation_gradient(dy: Tensor, y: Tensor, activation: str) -> Tensor:
    """Return the gradient with respect to an activation's input, from that of its output ``y``."""
    if activation == "relu":
        # The sign of y without a comparison, a cast or a select, which are slow scalar code on ARM;
        # the converter fuses the clipping into the multiplication.
        return dy * tf.minimum(tf.maximum(y * _HUGE, -1.0), 1.0)
    if activation == "softmax":
        weighted = dy * y
        return weighted - y * tf.reduce_sum(weighted, axis=-1, keepdims=True)
    return dy


def dense(x: Tensor, kernel: Tensor, bias: Tensor, activation: str) -> Tensor:
    """Multiply [n, inputs] with [inputs, outputs], add, activate."""

    def run(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        y = activate(tf.nn.bias_add(tf.matmul(x, kernel), bias), activation)

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dz = activation_gradient(dy, y, activation)
            return tf.matmul(dz, kernel, transpose_b=True), tf.matmul(x, dz, transpose_a=True), _sum_by_channel(dz)

        return y, gradient

    return tf.custom_gradient(run)(x, kernel, bias)


def convolution(x: Tensor, kernel: Tensor, bias: Tensor, strides: Pair, activation: str) -> Tensor:
    """Convolve [n, rows, columns, channels] with [rows, columns, channels, filters] (`SAME`), add, activate."""

    def run(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        y = activate(tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides, "SAME"), bias), activation)

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dz = activation_gradient(dy, y, activation)
            dx = tf.nn.conv2d_transpose(dz, kernel, _size(x), strides, "SAME")
            return dx, _kernel_gradient(x, dz, tuple(kernel.shape[:2]), strides), _sum_by_channel(dz)

        return y, gradient

    return tf.custom_gradient(run)(x, kernel, bias)


def depthwise_convolution(x: Tensor, kernel: Tensor, strides: Pair) -> Tensor:
    """Convolve every channel of [n, rows, columns, channels] with its own [rows, columns, channels, 1] (`SAME`)."""

    def run(x: Tensor, kernel: Tensor) -> tuple[Tensor, Gradient]:
        y = tf.nn.depthwise_conv2d(x, kernel, (1, *strides, 1), "SAME")

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            spread = _insert_zeros(dy, strides)
            return _depthwise_input_gradient(x, spread, kernel, strides), _depthwise_kernel_gradient(
                x, spread, tuple(kernel.shape[:2]), strides
            )

        return y, gradient

    return tf.custom_gradient(run)(x, kernel)


def average_pool(x: Tensor, size: int) -> Tensor:
    """Average blocks of [n, rows, columns, channels]; rows and columns that fill no block are left out."""
    _, rows, columns, channels = x.shape
    height, width = rows // size, columns // size

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        # A third of the instructions of an average-pool operator on ARMv7.
        kernel = tf.fill([size, size, channels, 1], 1.0 / size**2)
        y = tf.nn.depthwise_conv2d(x, kernel, (1, size, size, 1), "VALID")

        def gradient(dy: Tensor) -> Tensor:
            shares = [dy * (1.0 / size**2)] * size
            row = tf.reshape(tf.concat(shares, axis=3), [-1, height, width * size * channels])
            blocks = tf.reshape(tf.concat([row] * size, axis=2), [-1, height * size, width * size, channels])
            return _pad(blocks, (0, rows - height * size), (0, columns - width * size))

        return y, gradient

    return tf.custom_gradient(run)(x)


def _size(x: Tensor) -> Shape:
    """Return the shape as numbers where it is known, so that nothing about it is left to the device."""
    return x.shape if x.shape.is_fully_defined() else tf.shape(x)


def _same_padding(size: int, kernel: int, stride: int) -> Pair:
    """TensorFlow's `SAME` padding of one axis: (before, after)."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _pad(x: Tensor, rows: Pair, columns: Pair) -> Tensor:
    return tf.pad(x, [(0, 0), rows, columns, (0, 0)]) if any(rows + columns) else x


def _pad_same(x: Tensor, kernel: Pair, strides: Pair) -> Tensor:
    rows, columns = (_same_padding(x.shape[1 + axis], kernel[axis], strides[axis]) for axis in range(2))
    return _pad(x, rows, columns)


def _sum_by_channel(dz: Tensor) -> Tensor:
    """Sum over everything but channels, as a product with ones: a matrix product is faster than a reduction."""
    flat = tf.reshape(dz, [-1, dz.shape[-1]])
    return tf.reshape(tf.matmul(tf.ones([1, _size(flat)[0]]), flat), [-1])


def _kernel_gradient(x: Tensor, dz: Tensor, kernel: Pair, strides: Pair) -> Tensor:
    """Gradient of a convolution's kernel, itself a convolution: the batch is its depth and ``dz`` its kernel."""
    images = tf.transpose(_pad_same(x, kernel, strides), [3, 1, 2, 0])
    result = tf.nn.conv2d(images, tf.transpose(dz, [1, 2, 0, 3]), 1, "VALID", dilations=strides)
    return tf.transpose(result, [1, 2, 0, 3])


def _insert_zeros(dy: Tensor, strides: Pair) -> Tensor:
    """Put ``stride - 1`` zeros after every row and column, by concatenation (a plain copy of memory)."""
    _, rows, columns, channels = dy.shape
    if strides[1] > 1:
        dy = tf.concat([dy] + [tf.zeros_like(dy)] * (strides[1] - 1), axis=3)
    if strides[0] > 1:
        dy = tf.reshape(dy, [-1, rows, columns * strides[1] * channels])
        dy = tf.concat([dy] + [tf.zeros_like(dy)] * (strides[0] - 1), axis=2)
    return tf.reshape(dy, [-1, rows * strides[0], columns * strides[1], channels])


def _depthwise_input_gradient(x: Tensor, spread: Tensor, kernel: Tensor, strides: Pair) -> Tensor:
    """Convolve with the kernel turned around (by `gather`: a two-axis `reverse` is wrong on tflite-runtime 2.14)."""
    taps = kernel.shape[0] * kernel.shape[1]
    turned = tf.gather(tf.reshape(kernel, [taps, -1]), list(range(taps))[::-1])
    padding = []
    for axis in range(2):
        skipped = _same_padding(x.shape[1 + axis], kernel.shape[axis], strides[axis])[0]
        padding.append((kernel.shape[axis] - 1 - skipped, x.shape[1 + axis] + skipped - spread.shape[1 + axis]))
    return tf.nn.depthwise_conv2d(_pad(spread, *padding), tf.reshape(turned, kernel.shape), (1, 1, 1, 1), "VALID")


def _depthwise_kernel_gradient(x: Tensor, spread: Tensor, kernel: Pair, strides: Pair) -> Tensor:
    """Gradient of a depthwise kernel: the batch stacked to one tall image, whose kernel is the batch of ``dz``.

    The rows that keep one clip's sums from the next one's are zeros in ``dz``.
    """
    images = _pad_same(x, kernel, strides)
    _, rows, columns, channels = images.shape
    width = columns - kernel[1] + 1
    slopes = _pad(spread[:, :, :width], (0, rows - spread.shape[1]), (0, 0))
    stack = tf.reshape(slopes, [-1, width, channels, 1])[: 1 - kernel[0]]
    return tf.transpose(
        tf.nn.depthwise_conv2d(tf.reshape(images, [1, -1, columns, channels]), stack, (1, 1, 1, 1), "VALID"),
        [1, 2, 3, 0],
    )
