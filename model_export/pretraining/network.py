"""The networks of a front end: two convolutions over time and bands, then temporal residual blocks, then the mean.

The stem is two-dimensional, the rest convolves over time alone as TC-ResNet does (Choi et al. 2019). Batch
normalisation (Ioffe & Szegedy 2015) follows every convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from model_export.pretraining.pictures import BANDS

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
    bands: int = BANDS  # of a picture

    @property
    def embedding(self) -> int:
        """Numbers of an embedding."""
        return self.blocks[-1]

    @cached_property
    def convolutions(self) -> dict[str, Convolution]:
        """All convolutions by name; those of a block end in a, b and, on the shortcut, c."""
        first, second = self.stem
        columns = -(-self.bands // 4)
        found = {
            "stem1": Convolution(1, first, (5, 5), (2, 2)),
            "stem2": Convolution(first, second, (3, 3), (1, 2)),
            "narrow": Convolution(columns * second, self.narrow),
        }
        inputs = self.narrow
        for name, channels in self.named_blocks:
            found[f"{name}a"] = Convolution(inputs, channels, (self.taps, 1), (2, 1))
            found[f"{name}b"] = Convolution(channels, channels, (self.taps, 1), rectified=False)
            found[f"{name}c"] = Convolution(inputs, channels, strides=(2, 1), rectified=False)
            inputs = channels
        return found

    @property
    def named_blocks(self) -> list[tuple[str, int]]:
        """The temporal blocks' names and channels."""
        return [(f"block{number}", channels) for number, channels in enumerate(self.blocks, start=1)]


DESIGNS = {
    "base": Design((12, 16), 40, (48, 64), 7, 3_500_000, 100_000),
    "words": Design((16, 24), 64, (96, 128), 7, 9_000_000, 400_000, half=True),
    "small": Design((6, 8), 24, (24, 64), 5, 1_000_000, 100_000),
}


def initial(design: Design, key: jax.Array) -> tuple[Weights, Weights]:
    """Return a new network's weights (He et al. 2015), and the moving statistics of its normalisation."""
    weights: Weights = {}
    moving: Weights = {}
    for name, layer in design.convolutions.items():
        key, drawn = random.split(key)
        deviation = math.sqrt(2 / (layer.inputs * math.prod(layer.kernel)))
        weights[f"{name}/kernel"] = deviation * random.normal(drawn, (*layer.kernel, layer.inputs, layer.filters))
        for arrays, one, nought in ((weights, "scale", "offset"), (moving, "variance", "mean")):
            arrays[f"{name}/{one}"], arrays[f"{name}/{nought}"] = jnp.ones(layer.filters), jnp.zeros(layer.filters)
    return weights, moving


def embed(
    design: Design,
    weights: Weights,
    moving: Weights,
    pictures: jax.Array,
    precision: Any = jnp.float32,  # noqa: ANN401
    momentum: float = _MOMENTUM,
) -> tuple[jax.Array, Weights]:
    """Return the embeddings of a training's batch, normalised by its own statistics, and the new moving statistics.

    From normalised pictures, float32 [clips, frames, bands], to float32 [clips, embedding]. ``precision``: type of the
    convolutions' numbers; ``momentum``: share that the moving statistics keep of themselves.
    """
    seen = {}

    def convolved(x: jax.Array, name: str) -> jax.Array:
        layer = design.convolutions[name]
        y = _convolution(x.astype(precision), weights[f"{name}/kernel"].astype(precision), layer.strides)
        y = y.astype(jnp.float32)
        mean = y.mean((0, 1, 2))
        variance = jnp.maximum((y**2).mean((0, 1, 2)) - mean**2, 0)
        for part, value in (("mean", mean), ("variance", variance)):
            seen[f"{name}/{part}"] = momentum * moving[f"{name}/{part}"] + (1 - momentum) * value
        y = (y - mean) * (weights[f"{name}/scale"] * lax.rsqrt(variance + EPSILON)) + weights[f"{name}/offset"]
        return jax.nn.relu(y) if layer.rectified else y

    x = convolved(convolved(pictures[..., None], "stem1"), "stem2")
    x = convolved(x.reshape(*x.shape[:2], 1, -1), "narrow")
    for name, _ in design.named_blocks:
        x = jax.nn.relu(convolved(convolved(x, f"{name}a"), f"{name}b") + convolved(x, f"{name}c"))
    return x.mean((1, 2)), seen


def _convolution(x: jax.Array, kernel: jax.Array, strides: tuple[int, int]) -> jax.Array:
    """Convolve [clips, rows, columns, inputs] with [rows, columns, inputs, filters], padded as Keras does by "same".

    As one matrix product: on processors, XLA takes ten times as long for the gradients of its own convolution.
    """
    sizes = list(zip(x.shape[1:3], kernel.shape[:2], strides, strict=True))
    counts = [-(-size // stride) for size, _, stride in sizes]
    missing = [max(0, (n - 1) * stride + taps - size) for n, (size, taps, stride) in zip(counts, sizes, strict=True)]
    x = jnp.pad(x, ((0, 0), *((total // 2, total - total // 2) for total in missing), (0, 0)))
    for axis, ((_, taps, stride), count) in enumerate(zip(sizes, counts, strict=True), start=1):
        starts = range(taps)
        x = jnp.concatenate(
            [lax.slice_in_dim(x, at, at + (count - 1) * stride + 1, stride, axis) for at in starts], axis=-1
        )
    return x @ kernel.transpose(1, 0, 2, 3).reshape(-1, kernel.shape[-1])
