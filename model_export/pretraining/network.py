"""The networks of a front end: two convolutions over time and bands, then temporal residual blocks, then the mean.

The stem is two-dimensional, the rest convolves over time alone as TC-ResNet does (Choi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np

from model_export.layers.device_layers import Reshape
from model_export.layers.operators import Pair, Tensor
from model_export.pretraining.pictures import BANDS, FRAMES


@dataclass(frozen=True)
class Design:
    """Sizes of a network."""

    stem: tuple[int, int]  # filters of the two convolutions, 5 x 5 with stride 2 and 3 x 3 with stride (1, 2)
    narrow: int  # channels to which all bands of a frame are reduced
    blocks: tuple[int, ...]  # channels of the temporal blocks, each of which halves the number of frames
    taps: int  # frames that a temporal convolution sees
    max_multiply_adds: int  # what an inference may cost
    max_weights: int  # how many weights it may have
    half: bool = False  # whether a file has its weights as float16 alone, and no int8 graph

    @property
    def embedding(self) -> int:
        """How many numbers an embedding has."""
        return self.blocks[-1]


DESIGNS = {
    "base": Design((12, 16), 40, (48, 64), 7, 3_500_000, 100_000),
    "words": Design((16, 24), 64, (96, 128), 7, 9_000_000, 400_000, half=True),
    "small": Design((6, 8), 24, (24, 64), 5, 1_000_000, 100_000),
}


def build(design: Design, folded: bool = False) -> keras.Model:
    """Build the network: [n, 98, 40] to [n, embedding].

    Args:
        folded: whether the convolutions have a bias instead of batch normalisation, as on a device.
    """
    picture = keras.Input((FRAMES, BANDS), name="log_mel")
    layers = _Layers(normalised=not folded)
    x = layers.stem(Reshape((FRAMES, BANDS, 1))(picture), design)
    for number, channels in enumerate(design.blocks, start=1):
        x = layers.block(x, f"block{number}", channels, design.taps)
    return keras.Model(picture, keras.layers.GlobalAveragePooling2D()(x), name="front_end")


def fold(network: keras.Model, design: Design) -> keras.Model:
    """Return the same network with batch normalisation in the weights (Jacob et al. 2018, section 3.2).

    With the moving mean m, variance v, scale g and offset b of a filter w: w' = w g / sqrt(v + e), b' = b - m w'/w.
    A design of float16 weights gets those that float16 can hold.
    """
    result = build(design, folded=True)
    normalisations = iter(_of_kind(network, keras.layers.BatchNormalization))
    pairs = zip(_of_kind(network, keras.layers.Conv2D), _of_kind(result, keras.layers.Conv2D), strict=True)
    for convolution, target in pairs:
        normalisation = next(normalisations)
        scale, offset, mean, variance = (np.asarray(weight) for weight in normalisation.get_weights())
        factor = scale / np.sqrt(variance + normalisation.epsilon)
        weights = [np.asarray(convolution.kernel) * factor, offset - mean * factor]
        target.set_weights([w.astype(np.float16) for w in weights] if design.half else weights)
    return result


def _of_kind(network: keras.Model, kind: type) -> list[keras.Layer]:
    return [layer for layer in network.layers if isinstance(layer, kind)]


@dataclass(frozen=True)
class _Layers:
    """Layers, with or without batch normalisation."""

    normalised: bool

    def stem(self, x: Tensor, design: Design) -> Tensor:
        """Map [n, 98, 40, 1] to [n, 49, 1, narrow]."""
        x = self._convolved(x, "stem1", design.stem[0], (5, 5), (2, 2))
        x = self._convolved(x, "stem2", design.stem[1], (3, 3), (1, 2))
        x = Reshape((x.shape[1], 1, x.shape[2] * x.shape[3]))(x)
        return self._convolved(x, "narrow", design.narrow, (1, 1), (1, 1))

    def block(self, x: Tensor, name: str, channels: int, taps: int) -> Tensor:
        """Map [n, frames, 1, any] to [n, half the frames, 1, channels]."""
        y = self._convolved(x, f"{name}a", channels, (taps, 1), (2, 1))
        y = self._convolved(y, f"{name}b", channels, (taps, 1), (1, 1), relu=False)
        shortcut = self._convolved(x, f"{name}c", channels, (1, 1), (2, 1), relu=False)
        return keras.layers.ReLU()(keras.layers.Add()([y, shortcut]))

    def _convolved(self, x: Tensor, name: str, filters: int, kernel: Pair, strides: Pair, relu: bool = True) -> Tensor:
        layer = keras.layers.Conv2D(
            filters, kernel, strides=strides, padding="same", use_bias=not self.normalised, name=name
        )
        x = layer(x)
        if self.normalised:
            x = keras.layers.BatchNormalization(momentum=0.98)(x)
        return keras.layers.ReLU()(x) if relu else x
