"""The networks of a front end: two convolutions over time and bands, then temporal residual blocks, then the mean.

The stem is two-dimensional, the rest convolves over time alone as TC-ResNet does (Choi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import keras

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


def build(design: Design) -> keras.Model:
    """Build the network with batch normalisation, for training: [n, 98, 40] to [n, embedding]."""
    layers = keras.layers
    picture = keras.Input((FRAMES, BANDS), name="log_mel")
    x = layers.Reshape((FRAMES, BANDS, 1))(picture)
    x = _convolved(x, design.stem[0], (5, 5), (2, 2))
    x = _convolved(x, design.stem[1], (3, 3), (1, 2))
    x = layers.Reshape((x.shape[1], 1, x.shape[2] * x.shape[3]))(x)
    x = _convolved(x, design.narrow, (1, 1), (1, 1))
    for channels in design.blocks:
        x = _block(x, channels, design.taps)
    return keras.Model(picture, layers.GlobalAveragePooling2D()(x), name="front_end")


def _convolved(x: Tensor, filters: int, kernel: tuple[int, int], strides: tuple[int, int], relu: bool = True) -> Tensor:
    x = keras.layers.Conv2D(filters, kernel, strides, "same", use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.98)(x)
    return keras.layers.ReLU()(x) if relu else x


def _block(x: Tensor, channels: int, taps: int) -> Tensor:
    y = _convolved(x, channels, (taps, 1), (2, 1))
    y = _convolved(y, channels, (taps, 1), (1, 1), relu=False)
    shortcut = _convolved(x, channels, (1, 1), (2, 1), relu=False)
    return keras.layers.ReLU()(keras.layers.Add()([y, shortcut]))
