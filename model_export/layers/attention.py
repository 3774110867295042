"""Attention of several heads (Vaswani et al. 2017) and positions, for networks that train on a device.

TensorFlow's own gradients of matrix products and of softmax are made of built-in operators, so nothing is written anew.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from model_export.layers import operators
from model_export.layers.feed_forward import tensors
from model_export.layers.operators import Gradient, Tensor

_PROJECTIONS = ("query", "key", "value", "output")


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
