"""Pooling that trains in built-in operators, and the layers that do it; TensorFlow's gradient of a maximum does not."""

from __future__ import annotations

import keras
import tensorflow as tf

from model_export.layers.operators import HUGE, Gradient, Pair, Tensor, pad


def average_pool(x: Tensor, size: Pair) -> Tensor:
    """Average blocks of [n, rows, columns, channels]; rows and columns that fill no block are left out."""
    _, rows, columns, channels = x.shape
    height, width = rows // size[0], columns // size[1]
    share = 1.0 / (size[0] * size[1])

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        if size == (rows, 1):
            y = tf.reduce_mean(x, axis=1, keepdims=True)
        elif size[0] != size[1]:  # TensorFlow has no such strides for the next way on processors without AVX-512
            y = tf.nn.avg_pool2d(x, size, size, "VALID")
        else:  # a third of the instructions of an average-pool operator on ARMv7
            y = tf.nn.depthwise_conv2d(x, tf.fill([*size, channels, 1], share), (1, *size, 1), "VALID")

        def gradient(dy: Tensor) -> Tensor:
            row = tf.reshape(_repeat(dy * share, size[1]), [-1, height, width * size[1] * channels])
            blocks = tf.reshape(_repeat(row, size[0]), [-1, height * size[0], width * size[1], channels])
            return pad(blocks, (0, rows - height * size[0]), (0, columns - width * size[1]))

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
            to_second = dy * tf.nn.relu(tf.minimum(tf.maximum((second - first) * HUGE, -1.0), 1.0))
            dx = tf.reshape(tf.concat([dy - to_second, to_second], axis=-1), [-1, steps - steps % 2, channels])
            return tf.pad(dx, [(0, 0), (0, 1), (0, 0)]) if steps % 2 else dx

        return tf.maximum(first, second), gradient

    return tf.custom_gradient(run)(x)


def max_pool(x: Tensor, size: Pair) -> Tensor:
    """Take the largest of each block of [n, rows, columns, channels]; each side of a block is 1 or 2.

    Columns come first, so that of equal values the first one gets the gradient, row by row, as in TensorFlow.
    """
    _, rows, columns, channels = x.shape
    if size[1] == 2:
        pairs = max_pool_pairs(tf.reshape(x, [-1, columns, channels]))
        columns //= 2
        x = tf.reshape(pairs, [-1, rows, columns, channels])
    if size[0] == 2:
        pairs = max_pool_pairs(tf.reshape(x, [-1, rows, columns * channels]))
        x = tf.reshape(pairs, [-1, rows // 2, columns, channels])
    return x


def global_average(x: Tensor) -> Tensor:
    """Average [n, rows, columns, channels] over rows and columns, to [n, channels]."""
    _, rows, columns, channels = x.shape

    def run(x: Tensor) -> tuple[Tensor, Gradient]:
        def gradient(dy: Tensor) -> Tensor:
            return tf.tile(tf.reshape(dy * (1.0 / (rows * columns)), [-1, 1, 1, channels]), [1, rows, columns, 1])

        return tf.reduce_mean(x, axis=[1, 2]), gradient

    return tf.custom_gradient(run)(x)


def _repeat(x: Tensor, times: int) -> Tensor:
    """Put copies side by side along the last axis, which is a plain copy of memory."""
    return tf.concat([x] * times, axis=-1) if times > 1 else x


class AveragePooling2D(keras.layers.Layer):  # type: ignore[misc]
    """Average blocks."""

    def __init__(self, pool_size: Pair, **options: object) -> None:
        super().__init__(**options)
        self.pool_size = pool_size

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to as many rows and columns as there are whole blocks."""
        rows, columns = self.pool_size
        return average_pool(inputs, (rows, columns))


class GlobalAveragePooling2D(keras.layers.Layer):  # type: ignore[misc]
    """Average over all rows and columns."""

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to [n, channels]."""
        return global_average(inputs)


class MaxPooling2D(keras.layers.Layer):  # type: ignore[misc]
    """The largest of blocks of 1 or 2 rows and 1 or 2 columns."""

    def __init__(self, pool_size: Pair, **options: object) -> None:
        super().__init__(**options)
        if max(pool_size) > 2:
            raise ValueError(f"MaxPooling2D trains on a device with blocks of at most 2 x 2, not {pool_size}")
        self.pool_size = pool_size

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to as many rows and columns as there are whole blocks."""
        return max_pool(inputs, self.pool_size)


class MaxPooling1D(keras.layers.Layer):  # type: ignore[misc]
    """The larger of every two steps; an odd last one is left out."""

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, steps, channels] to [n, steps // 2, channels]."""
        return max_pool_pairs(inputs)
