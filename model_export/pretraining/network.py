"""The networks of a front end: two convolutions over time and bands, then temporal residual blocks, then the mean.

The stem is two-dimensional, the rest convolves over time alone as TC-ResNet does (Choi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from model_export.operators import Tensor
from model_export.pretraining.pictures import BANDS, FRAMES


@dataclass(frozen=True)
class Design:
    """Sizes of a network.

    Attributes:
        stem: filters of the two convolutions, 5 x 5 with stride 2 and 3 x 3 with stride (1, 2).
        narrow: channels to which all bands of a frame are reduced.
        blocks: channels of the temporal blocks, each of which halves the number of frames.
        taps: frames that a temporal convolution sees.
        max_multiply_adds: what an inference may cost.
        max_weights: how many weights it may have.
    """

    stem: tuple[int, int]
    narrow: int
    blocks: tuple[int, ...]
    taps: int
    max_multiply_adds: int
    max_weights: int

    @property
    def embedding(self) -> int:
        """How many numbers an embedding has."""
        return self.blocks[-1]


DESIGNS = {
    "base": Design((12, 16), 40, (48, 64), 7, 3_500_000, 100_000),
    "small": Design((6, 8), 24, (24, 64), 5, 1_000_000, 100_000),
}


def build(design: Design, folded: bool = False) -> keras.Model:
    """Build the network: [n, 98, 40] to [n, embedding].

    Args:
        design: its sizes.
        folded: whether the convolutions have a bias instead of batch normalisation, as on a device.
    """
    picture = keras.Input((FRAMES, BANDS), name="log_mel")
    x = _reshaped(picture, FRAMES, BANDS, 1)
    x = _convolved(x, design.stem[0], (5, 5), (2, 2), folded)
    x = _convolved(x, design.stem[1], (3, 3), (1, 2), folded)
    x = _reshaped(x, x.shape[1], 1, x.shape[2] * x.shape[3])
    x = _convolved(x, design.narrow, (1, 1), (1, 1), folded)
    for channels in design.blocks:
        x = _block(x, channels, design.taps, folded)
    return keras.Model(picture, keras.layers.GlobalAveragePooling2D()(x), name="front_end")


def fold(network: keras.Model, design: Design) -> keras.Model:
    """Return the same network with batch normalisation in the weights (Jacob et al. 2018, section 3.2).

    With the moving mean m, variance v, scale g and offset b of a filter w: w' = w g / sqrt(v + e), b' = b - m w'/w.
    """
    result = build(design, folded=True)
    normalisations = iter(_of_kind(network, keras.layers.BatchNormalization))
    pairs = zip(_of_kind(network, keras.layers.Conv2D), _of_kind(result, keras.layers.Conv2D), strict=True)
    for convolution, target in pairs:
        normalisation = next(normalisations)
        scale, offset, mean, variance = (np.asarray(weight) for weight in normalisation.get_weights())
        factor = scale / np.sqrt(variance + normalisation.epsilon)
        target.set_weights([np.asarray(convolution.kernel) * factor, offset - mean * factor])
    return result


def _reshaped(x: Tensor, *shape: int) -> Tensor:
    """Reshape to [n, *shape] by one operator; Keras's own layer would ask for the batch's size by four more."""
    return keras.layers.Lambda(lambda y: tf.reshape(y, (-1, *shape)), output_shape=shape)(x)


def _of_kind(network: keras.Model, kind: type) -> list[keras.Layer]:
    return [layer for layer in network.layers if isinstance(layer, kind)]


def _convolved(
    x: Tensor, filters: int, kernel: tuple[int, int], strides: tuple[int, int], folded: bool, relu: bool = True
) -> Tensor:
    x = keras.layers.Conv2D(filters, kernel, strides, "same", use_bias=folded)(x)
    if not folded:
        x = keras.layers.BatchNormalization(momentum=0.98)(x)
    return keras.layers.ReLU()(x) if relu else x


def _block(x: Tensor, channels: int, taps: int, folded: bool) -> Tensor:
    y = _convolved(x, channels, (taps, 1), (2, 1), folded)
    y = _convolved(y, channels, (taps, 1), (1, 1), folded, relu=False)
    shortcut = _convolved(x, channels, (1, 1), (2, 1), folded, relu=False)
    return keras.layers.ReLU()(keras.layers.Add()([y, shortcut]))
