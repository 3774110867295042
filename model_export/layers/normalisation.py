"""Normalisation of each clip by itself, in built-in operators: group normalisation (Wu & He 2018) with one group.

Batch normalisation's statistics differ between devices whose sounds differ, which harms federated training (Hsieh et
al. 2020), and it needs another graph for training. A clip's own mean and deviation need neither to travel nor be kept.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from model_export.layers.feed_forward import tensors
from model_export.layers.operators import Gradient, Tensor, sum_by_channel

_EPSILON = 1e-3  # Keras's


def normalise(x: Tensor, scale: Tensor, offset: Tensor, *, by_position: bool) -> Tensor:
    """Give every clip of [n, ..., channels], or every position, mean 0 and deviation 1; scale and shift each channel.

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
            return dx, sum_by_channel(dy * normal), sum_by_channel(dy)

        return normal * scale + offset, gradient

    return tf.custom_gradient(run)(x, scale, offset)


class _Normalisation(keras.layers.Layer):  # type: ignore[misc]
    """What both layers share: a scale and an offset for each channel, which can be left out."""

    def __init__(self, center: bool = True, scale: bool = True, **options: object) -> None:
        super().__init__(**options)
        self.center = center
        self.scale = scale

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the weights for inputs [n, ..., channels]."""
        channels = input_shape[-1]
        self.gamma = self.add_weight(name="gamma", shape=(channels,), initializer="ones") if self.scale else None
        self.beta = self.add_weight(name="beta", shape=(channels,), initializer="zeros") if self.center else None

    def _normalise(self, x: Tensor, by_position: bool) -> Tensor:
        scale = tf.ones(x.shape[-1]) if self.gamma is None else tensors(self.gamma)[0]
        offset = tf.zeros(x.shape[-1]) if self.beta is None else tensors(self.beta)[0]
        return normalise(x, scale, offset, by_position=by_position)


class GroupNormalization(_Normalisation):
    """Normalise every clip as a whole."""

    def __init__(self, groups: int = 1, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        if groups != 1:
            raise ValueError(f"GroupNormalization trains on a device with groups=1, not {groups}")

    def call(self, inputs: Tensor) -> Tensor:
        """Normalise each of [n, ..., channels]."""
        return self._normalise(inputs, by_position=False)


class LayerNormalization(_Normalisation):
    """Normalise every position of every clip over its channels."""

    def call(self, inputs: Tensor) -> Tensor:
        """Normalise each last axis of [n, ..., channels]."""
        return self._normalise(inputs, by_position=True)
