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


def convolution(x: Tensor, kernel: Tensor, bias: Tensor, strides: int, padding: str, activation: str) -> Tensor:
    """Convolve [n, rows, columns, channels] with [rows, columns, channels, filters], add, activate."""
    if kernel.shape[:2] == (1, 1) and strides == 1:
        rows, columns, channels = x.shape[1:]
        flat = tf.reshape(x, [-1, channels])
        y = dense(flat, tf.reshape(kernel, kernel.shape[2:]), bias, activation)
        return tf.reshape(y, [-1, rows, columns, kernel.shape[3]])

    def run(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        y = activate(tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides, padding.upper()), bias), activation)

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dz = activation_gradient(dy, y, activation)
            dx = tf.nn.conv2d_transpose(dz, kernel, _size(x), strides, padding.upper())
            return dx, _kernel_gradient(x, dz, kernel.shape, strides, padding), _sum_by_channel(dz)

        return y, gradient

    return tf.custom_gradient(run)(x, kernel, bias)


def depthwise_convolution(x: Tensor, kernel: Tensor, padding: str) -> Tensor:
    """Convolve every channel of [n, rows, columns, channels] with its own [rows, columns, channels, 1]."""

    def run(x: Tensor, kernel: Tensor) -> tuple[Tensor, Gradient]:
        y = tf.nn.depthwise_conv2d(x, kernel, (1, 1, 1, 1), padding.upper())

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            # Both are a third cheaper on ARMv7 when the batch stands among the channels of a single image.
            slopes = _one_image(dy)
            dx = _depthwise_input_gradient(slopes, kernel, _size(x), padding)
            return dx, _depthwise_kernel_gradient(
                _one_image(_window(x, kernel.shape, 1, padding)), slopes, kernel.shape
            )

        return y, gradient

    return tf.custom_gradient(run)(x, kernel)


def average_pool(x: Tensor, size: Pair) -> Tensor:
    """Average blocks of [n, rows, columns, channels]; rows and columns that fill no block are left out."""
    _, rows, columns, channels = x.shape
    height, width = rows // size[0], columns // size[1]
    share = 1.0 / (size[0] * size[1])

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        if size == (rows, 1):
            y = tf.reduce_mean(x, axis=1, keepdims=True)
        else:  # a third of the instructions of an average-pool operator on ARMv7
            y = tf.nn.depthwise_conv2d(x, tf.fill([*size, channels, 1], share), (1, *size, 1), "VALID")

        def gradient(dy: Tensor) -> Tensor:
            row = tf.reshape(_repeat(dy * share, size[1]), [-1, height, width * size[1] * channels])
            blocks = tf.reshape(_repeat(row, size[0]), [-1, height * size[0], width * size[1], channels])
            return _pad(blocks, (0, rows - height * size[0]), (0, columns - width * size[1]))

        return y, gradient

    return tf.custom_gradient(run)(x)


def max_pool_pairs(x: Tensor) -> Tensor:
    """Take the larger of every two steps of [n, steps, channels]; an odd last step is left out.

    Of two equal values the first one gets the gradient, as in TensorFlow.
    """
    _, steps, channels = x.shape

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        whole = x[:, : steps - steps % 2] if steps % 2 else x
        first, second = tf.split(tf.reshape(whole, [-1, steps // 2, 2 * channels]), 2, axis=-1)

        def gradient(dy: Tensor) -> Tensor:
            # 1 where the second is larger, else 0, again by clipping; `relu` keeps to operators of the oldest runtime.
            to_second = dy * tf.nn.relu(tf.minimum(tf.maximum((second - first) * _HUGE, -1.0), 1.0))
            dx = tf.reshape(tf.concat([dy - to_second, to_second], axis=-1), [-1, steps - steps % 2, channels])
            return tf.pad(dx, [(0, 0), (0, 1), (0, 0)]) if steps % 2 else dx

        return tf.maximum(first, second), gradient

    return tf.custom_gradient(run)(x)


def _repeat(x: Tensor, times: int) -> Tensor:
    """Put copies side by side along the last axis, which is a plain copy of memory."""
    return tf.concat([x] * times, axis=-1) if times > 1 else x


def _size(x: Tensor) -> Shape:
    """Return the shape as numbers where it is known, so that nothing about it is left to the device."""
    return x.shape if x.shape.is_fully_defined() else tf.shape(x)


def _pad(x: Tensor, rows: Pair, columns: Pair) -> Tensor:
    return tf.pad(x, [(0, 0), rows, columns, (0, 0)]) if any(rows + columns) else x


def _window(x: Tensor, kernel: Shape, strides: int, padding: str) -> Tensor:
    """Pad images as a convolution does, or cut off the last rows and columns that it never looks at."""
    amounts = []
    for size, taps in zip(x.shape[1:3], kernel[:2], strict=True):
        steps = math.ceil((size if padding == "same" else size - taps + 1) / strides)
        amounts.append((steps - 1) * strides + taps - size)
    cut = x[:, : x.shape[1] + min(amounts[0], 0), : x.shape[2] + min(amounts[1], 0)] if min(amounts) < 0 else x
    before = [max(amount, 0) // 2 for amount in amounts]
    return _pad(cut, *((start, max(amount, 0) - start) for start, amount in zip(before, amounts, strict=True)))


def _sum_by_channel(dz: Tensor) -> Tensor:
    """Sum over everything but channels; over the batch first, which adds long rows."""
    return tf.reduce_sum(tf.reshape(tf.reduce_sum(dz, axis=0), [-1, dz.shape[-1]]), axis=0)


def _kernel_gradient(x: Tensor, dz: Tensor, kernel: Shape, strides: int, padding: str) -> Tensor:
    """Gradient of a convolution's kernel, itself a convolution: the batch is its depth and ``dz`` its kernel."""
    images = tf.transpose(_window(x, kernel, strides, padding), [3, 1, 2, 0])
    result = tf.nn.conv2d(images, tf.transpose(dz, [1, 2, 0, 3]), 1, "VALID", dilations=strides)
    return tf.transpose(result, [1, 2, 0, 3])


def _one_image(x: Tensor) -> Tensor:
    """Turn [n, rows, columns, channels] into [1, rows, columns, n * channels]."""
    _, rows, columns, channels = x.shape
    swapped = tf.transpose(tf.reshape(x, [-1, rows * columns, channels]), [1, 0, 2])
    return tf.reshape(swapped, [1, rows, columns, -1])


def _depthwise_input_gradient(slopes: Tensor, kernel: Tensor, size: Shape, padding: str) -> Tensor:
    """Convolve with the kernel turned around (by `gather`: a two-axis `reverse` is wrong on tflite-runtime 2.14)."""
    height, width, channels = kernel.shape[:3]
    turned = tf.gather(tf.reshape(kernel, [height * width, channels]), list(range(height * width))[::-1])
    kernels = tf.reshape(tf.tile(turned, [1, size[0]]), [height, width, -1, 1])
    if padding == "valid":
        slopes = _pad(slopes, (height - 1, height - 1), (width - 1, width - 1))
    image = tf.nn.depthwise_conv2d(slopes, kernels, (1, 1, 1, 1), padding.upper())
    return tf.reshape(tf.transpose(tf.reshape(image, [size[1] * size[2], -1, channels]), [1, 0, 2]), size)


def _depthwise_kernel_gradient(image: Tensor, slopes: Tensor, kernel: Shape) -> Tensor:
    """Convolve the image with the slopes as its kernel, and add up what belongs to each channel."""
    slopes = tf.reshape(slopes, [*slopes.shape[1:3], -1, 1])
    by_clip = tf.nn.depthwise_conv2d(image, slopes, (1, 1, 1, 1), "VALID")
    return tf.reshape(tf.reduce_sum(tf.reshape(by_clip, [*kernel[:2], -1, kernel[2]]), axis=2), kernel)
