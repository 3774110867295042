"""Operations whose gradients TensorFlow Lite can run: built-in operators alone, right on every runtime.

TensorFlow's own gradients need Flex operators (`ReluGrad`, `Conv2DBackpropFilter`, ...), which no pip wheel of the
runtime holds. Those here are present, and the fastest on ARMv7 of those that were counted.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Tensor = Any
Variable = Any
Pair = tuple[int, int]
Gradient = Callable[..., Any]
Shape = Any  # numbers, or a tensor of them

_EPSILON = 1e-3  # of normalisation, Keras's
# Large enough to lift every normal float32 above 1, so that clipping to [-1, 1] leaves the sign.
_HUGE = 1e30
# TensorFlow Lite never returns from a depthwise convolution of more channels: they fill its fixed accumulator.
_DEPTHWISE_CHANNELS = 4832


def pair(size: int | Pair) -> Pair:
    """Return a size both ways."""
    return (size, size) if isinstance(size, int) else size


def tensors(*variables: Variable) -> list[Tensor]:
    """Read variables now: a custom gradient must be given its weights as tensors."""
    return [tf.convert_to_tensor(keras.ops.convert_to_tensor(variable)) for variable in variables]


def activate(z: Tensor, activation: str) -> Tensor:
    """Apply `relu` or `linear`."""
    return tf.nn.relu(z) if activation == "relu" else z


def _activation_gradient(dy: Tensor, y: Tensor, activation: str) -> Tensor:
    """Return the gradient with respect to an activation's input, from that of its output ``y``."""
    if activation == "relu":
        # The sign of y without a comparison, a cast or a select, which are slow scalar code on ARM;
        # the converter fuses the clipping into the multiplication.
        return dy * tf.minimum(tf.maximum(y * _HUGE, -1.0), 1.0)
    return dy


def dense(x: Tensor, kernel: Tensor, bias: Tensor, activation: str) -> Tensor:
    """Multiply [n, inputs] with [inputs, outputs], add, activate."""

    def run(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        y = activate(tf.nn.bias_add(tf.matmul(x, kernel), bias), activation)

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dz = _activation_gradient(dy, y, activation)
            return tf.matmul(dz, kernel, transpose_b=True), tf.matmul(x, dz, transpose_a=True), _sum_by_channel(dz)

        return y, gradient

    return tf.custom_gradient(run)(x, kernel, bias)


def convolution(
    x: Tensor, kernel: Tensor, bias: Tensor, strides: Pair, padding: str, activation: str, dilation: int = 1
) -> Tensor:
    """Convolve [n, rows, columns, channels] with [rows, columns, channels, filters], add, activate.

    A dilation above 1 goes with strides of 1 and padding ``same`` alone.
    """
    if kernel.shape[:2] == strides == (1, 1):
        rows, columns, channels = x.shape[1:]
        flat = tf.reshape(x, [-1, channels])
        y = dense(flat, tf.reshape(kernel, kernel.shape[2:]), bias, activation)
        return tf.reshape(y, [-1, rows, columns, kernel.shape[3]])

    def run(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Gradient]:
        z = tf.nn.conv2d(x, kernel, strides, padding.upper(), dilations=dilation)
        y = activate(tf.nn.bias_add(z, bias), activation)

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            dz = _activation_gradient(dy, y, activation)
            if dilation == 1:
                dx = tf.nn.conv2d_transpose(dz, kernel, _size(x), strides, padding.upper())
            else:  # the operator of a transposed convolution knows no dilation
                dx = tf.nn.conv2d(dz, tf.transpose(_turned(kernel), [0, 1, 3, 2]), 1, "SAME", dilations=dilation)
            return dx, _kernel_gradient(x, dz, kernel.shape, strides, padding, dilation), _sum_by_channel(dz)

        return y, gradient

    return tf.custom_gradient(run)(x, kernel, bias)


def depthwise_convolution(x: Tensor, kernel: Tensor, padding: str) -> Tensor:
    """Convolve every channel of [n, rows, columns, channels] with its own [rows, columns, channels, 1]."""

    def run(x: Tensor, kernel: Tensor) -> tuple[Tensor, Gradient]:
        y = tf.nn.depthwise_conv2d(x, kernel, (1, 1, 1, 1), padding.upper())

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            clips, channels = x.shape[0], x.shape[3]
            parts = 1 if clips is None else math.ceil(clips * channels / _DEPTHWISE_CHANNELS)
            if parts == 1:
                return _depthwise_gradients(x, dy, kernel, padding)
            sizes = [clips // parts + (part < clips % parts) for part in range(parts)]
            pieces = zip(tf.split(x, sizes), tf.split(dy, sizes), strict=True)
            by_input, by_kernel = zip(*(_depthwise_gradients(*piece, kernel, padding) for piece in pieces), strict=True)
            return tf.concat(by_input, 0), tf.add_n(by_kernel)

        return y, gradient

    return tf.custom_gradient(run)(x, kernel)


def relu(x: Tensor) -> Tensor:
    """Apply ReLU by itself, where something stands between it and a layer's weights."""

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        y = tf.nn.relu(x)
        return y, lambda dy: _activation_gradient(dy, y, "relu")

    return tf.custom_gradient(run)(x)


def _size(x: Tensor) -> Shape:
    """Return the shape as numbers where it is known, so that nothing about it is left to the device."""
    return x.shape if x.shape.is_fully_defined() else tf.shape(x)


def pad(x: Tensor, rows: Pair, columns: Pair) -> Tensor:
    """Put zeros around images, so many before and behind."""
    return tf.pad(x, [(0, 0), rows, columns, (0, 0)]) if any(rows + columns) else x


def _window(x: Tensor, kernel: Shape, strides: Pair, padding: str, dilation: int = 1) -> Tensor:
    """Pad images as a convolution does, or cut off the last rows and columns that it never looks at."""
    amounts = []
    for size, taps, stride in zip(x.shape[1:3], kernel[:2], strides, strict=True):
        steps = math.ceil((size if padding == "same" else size - taps + 1) / stride)
        amounts.append((steps - 1) * stride + (taps - 1) * dilation + 1 - size)
    cut = x[:, : x.shape[1] + min(amounts[0], 0), : x.shape[2] + min(amounts[1], 0)] if min(amounts) < 0 else x
    before = [max(amount, 0) // 2 for amount in amounts]
    return pad(cut, *((start, max(amount, 0) - start) for start, amount in zip(before, amounts, strict=True)))


def _sum_by_channel(dz: Tensor) -> Tensor:
    """Sum over everything but channels; over the batch first, which adds long rows."""
    return tf.reduce_sum(tf.reshape(tf.reduce_sum(dz, axis=0), [-1, dz.shape[-1]]), axis=0)


def _kernel_gradient(x: Tensor, dz: Tensor, kernel: Shape, strides: Pair, padding: str, dilation: int) -> Tensor:
    """Gradient of a convolution's kernel, itself a convolution: the batch is its depth and ``dz`` its kernel."""
    images = tf.transpose(_window(x, kernel, strides, padding, dilation), [3, 1, 2, 0])
    result = tf.nn.conv2d(images, tf.transpose(dz, [1, 2, 0, 3]), dilation, "VALID", dilations=strides)
    return tf.transpose(result, [1, 2, 0, 3])


def _turned(kernel: Tensor) -> Tensor:
    """Turn [rows, columns, ...] around, by `gather`: a `reverse` of two axes is wrong on tflite-runtime 2.14."""
    taps = kernel.shape[0] * kernel.shape[1]
    return tf.reshape(tf.gather(tf.reshape(kernel, [taps, *kernel.shape[2:]]), list(range(taps))[::-1]), kernel.shape)


def _one_image(x: Tensor) -> Tensor:
    """Turn [n, rows, columns, channels] into [1, rows, columns, n * channels]."""
    _, rows, columns, channels = x.shape
    swapped = tf.transpose(tf.reshape(x, [-1, rows * columns, channels]), [1, 0, 2])
    return tf.reshape(swapped, [1, rows, columns, -1])


def _depthwise_gradients(x: Tensor, dy: Tensor, kernel: Tensor, padding: str) -> tuple[Tensor, Tensor]:
    # Both are a third cheaper on ARMv7 when the batch stands among the channels of a single image.
    slopes = _one_image(dy)
    dx = _depthwise_input_gradient(slopes, kernel, _size(x), padding)
    return dx, _depthwise_kernel_gradient(_one_image(_window(x, kernel.shape, (1, 1), padding)), slopes, kernel.shape)


def _depthwise_input_gradient(slopes: Tensor, kernel: Tensor, size: Shape, padding: str) -> Tensor:
    """Convolve with the kernel turned around (by `gather`: a two-axis `reverse` is wrong on tflite-runtime 2.14)."""
    height, width, channels = kernel.shape[:3]
    turned = tf.gather(tf.reshape(kernel, [height * width, channels]), list(range(height * width))[::-1])
    kernels = tf.reshape(tf.tile(turned, [1, size[0]]), [height, width, -1, 1])
    if padding == "valid":
        slopes = pad(slopes, (height - 1, height - 1), (width - 1, width - 1))
    image = tf.nn.depthwise_conv2d(slopes, kernels, (1, 1, 1, 1), padding.upper())
    return tf.reshape(tf.transpose(tf.reshape(image, [size[1] * size[2], -1, channels]), [1, 0, 2]), size)


def _depthwise_kernel_gradient(image: Tensor, slopes: Tensor, kernel: Shape) -> Tensor:
    """Convolve the image with the slopes as its kernel, and add up what belongs to each channel."""
    slopes = tf.reshape(slopes, [*slopes.shape[1:3], -1, 1])
    by_clip = tf.nn.depthwise_conv2d(image, slopes, (1, 1, 1, 1), "VALID")
    return tf.reshape(tf.reduce_sum(tf.reshape(by_clip, [*kernel[:2], -1, kernel[2]]), axis=2), kernel)


def average_rows(x: Tensor) -> Tensor:
    """Average [n, rows, columns, channels] over the rows, to [n, 1, columns, channels]."""
    _, rows, columns, channels = x.shape

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        def gradient(dy: Tensor) -> Tensor:
            row = tf.reshape(dy * (1.0 / rows), [-1, 1, columns * channels])
            return tf.reshape(tf.concat([row] * rows, axis=-1), [-1, rows, columns, channels])

        return tf.reduce_mean(x, axis=1, keepdims=True), gradient

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


def global_average(x: Tensor) -> Tensor:
    """Average [n, rows, columns, channels] over rows and columns, to [n, channels]."""
    _, rows, columns, channels = x.shape

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        def gradient(dy: Tensor) -> Tensor:
            return tf.tile(tf.reshape(dy * (1.0 / (rows * columns)), [-1, 1, 1, channels]), [1, rows, columns, 1])

        return tf.reduce_mean(x, axis=[1, 2]), gradient

    return tf.custom_gradient(run)(x)


def normalise(x: Tensor, scale: Tensor, offset: Tensor, *, by_position: bool) -> Tensor:
    """Give every clip of [n, ..., channels], or every position, mean 0 and deviation 1; scale and shift each channel.

    Group normalisation (Wu & He 2018) with one group: batch normalisation's statistics differ between devices whose
    sounds differ, which harms federated training (Hsieh et al. 2020), and it needs another graph for training.
    What is normalised is never reshaped: tflite-runtime 2.14 writes over a sum whose reshaped reshape is still needed.
    """

    def mean(x: Tensor) -> Tensor:
        *places, channels = x.shape[1:]
        numbers = channels if by_position else x.shape[1:].num_elements()
        means = tf.reduce_mean(tf.reshape(x, [-1, numbers]), axis=1)
        return tf.reshape(means, [-1, *(places if by_position else [1] * len(places)), 1])

    def run(x: Tensor, scale: Tensor, offset: Tensor) -> tuple[Tensor, Gradient]:
        centred = x - mean(x)
        shrink = tf.math.rsqrt(mean(centred * centred) + _EPSILON)
        normal = centred * shrink

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            slope = dy * scale
            dx = (slope - mean(slope) - normal * mean(slope * normal)) * shrink
            return dx, _sum_by_channel(dy * normal), _sum_by_channel(dy)

        return normal * scale + offset, gradient

    return tf.custom_gradient(run)(x, scale, offset)
