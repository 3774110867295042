"""Connects the layers of the larger networks of `designs.py`, from features to what the head is given.

`source` is where the layers come from: those that train on a device, or Keras's own, against which they are tested.
"""

from __future__ import annotations

from functools import singledispatch
from types import ModuleType

import keras

from model_export.attention import SinusoidalPositions
from model_export.designs import (
    AttentionRecurrent,
    ConvolutionalRecurrent,
    DepthSeparable,
    Design,
    KeywordTransformer,
    Residual,
)
from model_export.operators import Tensor


@singledispatch
def connect(design: Design, source: ModuleType, x: Tensor) -> Tensor:
    """Map normalised cepstra [n, frames, coefficients] to the embedding [n, width]."""
    raise NotImplementedError(f"no network is known for {design}")


@connect.register
def _(design: ConvolutionalRecurrent, source: ModuleType, x: Tensor) -> Tensor:
    for number, filters in enumerate(design.filters, start=1):
        x = source.Conv1D(filters, 3, padding="same", activation="relu", name=f"conv{number}")(x)
        if x.shape[1] >= 2:  # a short input is used up before the last layer
            x = source.MaxPooling1D(name=f"pool{number}")(x)
    unit = source.GRU(design.units, name="gru")
    return (source.Bidirectional(unit, name="both") if design.bidirectional else unit)(x)


@connect.register
def _(design: DepthSeparable, source: ModuleType, x: Tensor) -> Tensor:
    def normalised(name: str, x: Tensor) -> Tensor:
        return source.ReLU(name=f"relu_{name}")(source.GroupNormalization(groups=1, name=f"norm_{name}")(x))

    x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
    first = source.Conv2D(design.channels, (10, 4), strides=2, padding="same", use_bias=False, name="conv")
    x = normalised("conv", first(x))
    for number in range(1, design.blocks + 1):
        depthwise, pointwise = f"depthwise{number}", f"pointwise{number}"
        x = normalised(depthwise, source.DepthwiseConv2D(3, padding="same", use_bias=False, name=depthwise)(x))
        x = normalised(pointwise, source.Conv2D(design.channels, 1, use_bias=False, name=pointwise)(x))
    return source.GlobalAveragePooling2D(name="mean")(x)


@connect.register
def _(design: Residual, source: ModuleType, x: Tensor) -> Tensor:
    def convolution(number: int, x: Tensor) -> Tensor:
        dilation = 2 ** (max(number - 1, 0) // 3)
        layer = source.Conv2D(
            design.channels, 3, padding="same", dilation_rate=dilation, use_bias=False, activation="relu",
            name=f"conv{number}",
        )  # fmt: skip
        return layer(x)

    x = around = convolution(0, source.Reshape((*x.shape[1:], 1), name="channel")(x))
    for number in range(1, design.convolutions + 1):
        x = convolution(number, x)
        if number % 2 == 0:
            x = around = keras.layers.Add(name=f"add{number}")([x, around])
        x = source.GroupNormalization(groups=1, center=False, scale=False, name=f"norm{number}")(x)
    return source.GlobalAveragePooling2D(name="mean")(x)


@connect.register
def _(design: AttentionRecurrent, source: ModuleType, x: Tensor) -> Tensor:
    frames, coefficients = x.shape[1:]
    x = source.Reshape((frames, coefficients, 1), name="channel")(x)
    for number, filters in enumerate((10, 1), start=1):
        x = source.Conv2D(filters, (5, 1), padding="same", use_bias=False, name=f"conv{number}")(x)
        x = source.ReLU(name=f"relu{number}")(source.GroupNormalization(groups=1, name=f"norm{number}")(x))
    x = source.Reshape((frames, coefficients), name="frames")(x)
    for number in (1, 2):
        unit = source.GRU(design.units, return_sequences=True, name=f"gru{number}")
        x = source.Bidirectional(unit, name=f"both{number}")(x)
    middle = source.Cropping1D((frames // 2, frames - 1 - frames // 2), name="middle")(x)
    attention = source.MultiHeadAttention(design.heads, design.units // design.heads, use_bias=False, name="attention")
    return source.Flatten(name="flatten")(attention(middle, x))


@connect.register
def _(design: KeywordTransformer, source: ModuleType, x: Tensor) -> Tensor:
    frames = x.shape[1]

    def dense(units: int, activation: str, name: str, x: Tensor) -> Tensor:
        return source.Conv1D(units, 1, activation=activation, name=name)(x)

    x = SinusoidalPositions(name="positions")(dense(design.width, "linear", "tokens", x))
    for number in range(1, design.layers + 1):
        attention = source.MultiHeadAttention(
            design.heads, design.width // design.heads, use_bias=False, name=f"attention{number}"
        )
        x = keras.layers.Add(name=f"seen{number}")([x, attention(x, x)])
        x = source.LayerNormalization(name=f"norm_seen{number}")(x)
        thought = dense(design.inner, "relu", f"inner{number}", x)
        thought = dense(design.width, "linear", f"outer{number}", thought)
        x = source.LayerNormalization(name=f"norm{number}")(keras.layers.Add(name=f"add{number}")([x, thought]))
    x = source.Reshape((frames, 1, design.width), name="places")(x)
    return source.GlobalAveragePooling2D(name="mean")(x)
