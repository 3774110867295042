"""The networks of a front end: convolutions over time and bands, then temporal residual blocks, then the mean.

The stem is two-dimensional, the rest convolves over time alone as TC-ResNet does (Choi et al. 2019). Batch
normalisation (Ioffe & Szegedy 2015) follows every convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from model_export.pretraining.pictures import BANDS, FRAMES

SIGNATURE = "embed"
"""That of a network's graph."""
EPSILON = 1e-3  # is added to a variance
_MOMENTUM = 0.99  # of the moving means and variances

Weights = dict[str, jax.Array]
"""A convolution's ``NAME/kernel`` [rows, columns, inputs, filters], ``NAME/scale`` and ``NAME/offset`` [filters]; as
moving statistics ``NAME/mean`` and ``NAME/variance`` [filters]."""


@dataclass(frozen=True)
class Convolution:
    """A convolution that is padded to keep the size of its input, but for its strides."""

    inputs: int  # channels of the input
    filters: int  # channels of the output
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    rectified: bool = True  # whether a rectified linear unit follows
    depthwise: bool = False  # whether each channel has a filter of its own, and its kernel one input

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the kernel, as Keras has it."""
        return (*self.kernel, *((self.filters, 1) if self.depthwise else (self.inputs, self.filters)))


@dataclass(frozen=True)
class Design:
    """Sizes of a network."""

    # Filters of the first convolution, 5 x 5 with stride 2, and, if there is a second, of it: 3 x 3 with stride (1, 2)
    stem: tuple[int, ...]
    narrow: int  # channels to which all bands of a frame are reduced
    blocks: tuple[int, ...]  # channels of the temporal blocks, each of which halves the number of frames
    taps: int  # frames that a temporal convolution sees
    half: bool = False  # whether a file has its weights as float16 alone, and no int8 graph
    bands: int = BANDS  # of a picture
    # Filters of depthwise-separable convolutions 3 x 3 in place of the second (Howard et al. 2017): with a shortcut, or
    # with stride (1, 2) where the number of filters changes.
    separable: tuple[int, ...] = ()

    @property
    def embedding(self) -> int:
        """Numbers of an embedding."""
        return self.blocks[-1]

    @property
    def places(self) -> list[int]:
        """The frame of the picture at the middle of what each frame before the mean sees."""
        return list(range(1, FRAMES, 2 << len(self.blocks)))

    @cached_property
    def convolutions(self) -> dict[str, Convolution]:
        """All convolutions by name; those of a block end in a, b and, on the shortcut, c."""
        channels = self.stem[0]
        found = {"stem1": Convolution(1, channels, (5, 5), (2, 2))}
        for filters in self.stem[1:]:
            found["stem2"] = Convolution(channels, filters, (3, 3), (1, 2))
            channels = filters
        for number, filters in enumerate(self.separable, start=1):
            strides = (1, 1) if filters == channels else (1, 2)
            found[f"separable{number}a"] = Convolution(channels, channels, (3, 3), strides, False, depthwise=True)
            found[f"separable{number}b"] = Convolution(channels, filters, rectified=filters != channels)
            channels = filters
        channels *= -(-self.bands // 4)
        found["narrow"] = Convolution(channels, self.narrow)
        channels = self.narrow
        for number, filters in enumerate(self.blocks, start=1):
            found[f"block{number}a"] = Convolution(channels, filters, (self.taps, 1), (2, 1))
            found[f"block{number}b"] = Convolution(filters, filters, (self.taps, 1), rectified=False)
            found[f"block{number}c"] = Convolution(channels, filters, strides=(2, 1), rectified=False)
            channels = filters
        return found


DESIGNS = {
    "base": Design((12, 16), 40, (48, 64), 7),
    "words": Design((16, 24), 64, (96, 128), 7, half=True),
    "small": Design((6, 8), 24, (24, 64), 5),
    "separable": Design((24,), 80, (112, 184), 7, half=True, bands=53, separable=(24, 40, 40, 40)),
}


def connect(
    design: Design,
    picture: Any,  # noqa: ANN401
    convolved: Callable[[Any, str], Any],
    rectified: Callable[[Any], Any],
    reshaped: Callable[[Any, tuple[int, ...]], Any],
) -> Any:  # noqa: ANN401
    """Lead pictures [n, frames, bands] through a design's layers, by operations of JAX or Keras.

    Returns the frames before the mean, [n, frames, 1, embedding].
    """
    x = convolved(reshaped(picture, (*picture.shape[1:], 1)), "stem1")
    if "stem2" in design.convolutions:
        x = convolved(x, "stem2")
    for number in range(1, len(design.separable) + 1):
        y = convolved(convolved(x, f"separable{number}a"), f"separable{number}b")
        x = rectified(x + y) if y.shape == x.shape else y
    x = convolved(reshaped(x, (x.shape[1], 1, x.shape[2] * x.shape[3])), "narrow")
    for number in range(1, len(design.blocks) + 1):
        y = convolved(convolved(x, f"block{number}a"), f"block{number}b")
        x = rectified(y + convolved(x, f"block{number}c"))
    return x


def initial(design: Design, key: jax.Array) -> tuple[Weights, Weights]:
    """Return a new network's weights (He et al. 2015), and the moving statistics of its normalisation."""
    weights: Weights = {}
    moving: Weights = {}
    for name, layer in design.convolutions.items():
        key, drawn = random.split(key)
        shape = (*layer.kernel, 1 if layer.depthwise else layer.inputs, layer.filters)
        weights[f"{name}/kernel"] = math.sqrt(2 / math.prod(shape[:3])) * random.normal(drawn, shape)
        for arrays, one, nought in ((weights, "scale", "offset"), (moving, "variance", "mean")):
            arrays[f"{name}/{one}"], arrays[f"{name}/{nought}"] = jnp.ones(layer.filters), jnp.zeros(layer.filters)
    return weights, moving


def frames(
    design: Design,
    weights: Weights,
    moving: Weights,
    pictures: jax.Array,
    precision: Any = jnp.float32,  # noqa: ANN401
    momentum: float = _MOMENTUM,
) -> tuple[jax.Array, Weights]:
    """Return the frames whose mean is an embedding, of a training's batch, and the new moving statistics.

    From normalised pictures, float32 [clips, frames, bands], to float32 [clips, frames, embedding]. A batch is
    normalised by its own statistics. ``precision``: type of the numbers in products of matrices; ``momentum``: share
    that the moving statistics keep of themselves.
    """
    seen = {}

    def convolved(x: jax.Array, name: str) -> jax.Array:
        layer = design.convolutions[name]
        kernel = weights[f"{name}/kernel"]
        if layer.depthwise:
            y = _depthwise(x, kernel, layer.strides)
        else:
            y = _convolution(x.astype(precision), kernel.astype(precision), layer.strides).astype(jnp.float32)
        mean = y.mean((0, 1, 2))
        variance = jnp.maximum((y**2).mean((0, 1, 2)) - mean**2, 0)
        for part, value in (("mean", mean), ("variance", variance)):
            seen[f"{name}/{part}"] = momentum * moving[f"{name}/{part}"] + (1 - momentum) * value
        y = (y - mean) * (weights[f"{name}/scale"] * lax.rsqrt(variance + EPSILON)) + weights[f"{name}/offset"]
        return jax.nn.relu(y) if layer.rectified else y

    def reshaped(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return x.reshape(-1, *shape)

    found: jax.Array = connect(design, pictures, convolved, jax.nn.relu, reshaped)
    return found[:, :, 0], seen


def _convolution(x: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    """Convolve [clips, rows, columns, inputs] with [rows, columns, inputs, filters], padded as Keras does by "same".

    As one matrix product: on processors, XLA takes ten times as long for the gradients of its own convolution.
    """
    for axis, (taps, stride) in enumerate(zip(kernel.shape, strides, strict=False), start=1):
        x = jnp.concatenate(_seen_by_taps(x, axis, taps, stride), axis=-1)
    return x @ kernel.transpose(1, 0, 2, 3).reshape(-1, kernel.shape[-1])


def _depthwise(x: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    """Convolve each channel of [clips, rows, columns, channels] with its own of [rows, columns, 1, channels]."""
    rows = _seen_by_taps(x, 1, kernel.shape[0], strides[0])
    parts = [
        kernel[row, column] * part
        for row, seen in enumerate(rows)
        for column, part in enumerate(_seen_by_taps(seen, 2, kernel.shape[1], strides[1]))
    ]
    return jnp.asarray(sum(parts[1:], start=parts[0]))


def _seen_by_taps(x: jax.Array, axis: int, taps: int, stride: int) -> list[jax.Array]:
    """Return what each tap of a convolution along an axis sees."""
    size = x.shape[axis]
    reach = (-(-size // stride) - 1) * stride + 1
    missing = max(0, reach - 1 + taps - size)
    x = jnp.pad(x, [(missing // 2, missing - missing // 2) if one == axis else (0, 0) for one in range(x.ndim)])
    return [lax.slice_in_dim(x, first, first + reach, stride, axis) for first in range(taps)]
