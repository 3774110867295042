"""The zoo: networks that devices train, by name. docs/models.md says what papers leave open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

Tensor = Any  # the command line lists the networks without loading TensorFlow
Share = Callable[..., int]
"""Takes a number of channels or units, and of what its share must be a multiple; returns the share, at least 1."""


@dataclass(frozen=True)
class Design:
    """A network, from normalised features [n, frames, numbers per frame] to what the head is given, [n, width]."""

    layers: Callable[..., Tensor]  # connects them: (source, x, share, *sizes)
    sizes: tuple[Any, ...]  # of the layers as they were published

    def connect(self, source: ModuleType, x: Tensor, width: float) -> Tensor:
        """Connect the layers of a source: those that train on a device, or Keras's own, against which they are tested.

        ``width`` is the share of channels and units that is kept: the width multiplier of Howard et al. 2017.
        """

        def share(number: int, multiple: int = 1) -> int:
            return max(1, round(number * width / multiple)) * multiple

        return self.layers(source, x, share, *self.sizes)


@dataclass(frozen=True)
class Block:
    """A convolution of Gudur & Perepu 2021, section 4: ``kind`` is its class."""

    kind: str
    units: int
    kernel: int = 3
    strides: int = 1
    padding: str = "valid"


def _blocks(source: ModuleType, x: Tensor, share: Share, *blocks: Block) -> Tensor:
    """A strided first convolution, others, and the mean over time: how activations shrink is left open by the paper."""
    x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
    for number, block in enumerate(blocks, start=1):
        strides = {"strides": block.strides} if block.kind == "Conv2D" else {}
        options = {"padding": block.padding, "activation": "relu", "name": f"conv{number}", **strides}
        x = getattr(source, block.kind)(share(block.units), block.kernel, **options)(x)
    x = source.AveragePooling2D((x.shape[1], 1), name="pool")(x)
    return source.Flatten(name="flatten")(x)


def _dense(source: ModuleType, x: Tensor, share: Share, sizes: tuple[int, ...]) -> Tensor:
    x = source.Flatten(name="flatten")(x)
    for number, units in enumerate(sizes, start=1):
        x = source.Dense(share(units), activation="relu", name=f"dense{number}")(x)
    return x


def _crnn(
    source: ModuleType, x: Tensor, share: Share, sizes: tuple[int, ...], units: int, bidirectional: bool = False
) -> Tensor:
    """Bai et al. 2025 ("FedMLAC"), table 3: convolutions that halve the time, a recurrent unit's last state."""
    for number, filters in enumerate(sizes, start=1):
        x = source.Conv1D(share(filters), 3, padding="same", activation="relu", name=f"conv{number}")(x)
        if x.shape[1] >= 2:  # a short input is used up before the last layer
            x = source.MaxPooling1D(name=f"pool{number}")(x)
    unit = source.GRU(share(units), name="gru")
    return (source.Bidirectional(unit, name="both") if bidirectional else unit)(x)


def _depth_separable(source: ModuleType, x: Tensor, share: Share, channels: int, blocks: int) -> Tensor:
    """Zhang et al. 2017 ("Hello Edge"): a strided convolution of 10 x 4, depth-separable ones of 3 x 3, the mean."""

    def normalised(name: str, x: Tensor) -> Tensor:
        return source.ReLU(name=f"relu_{name}")(source.GroupNormalization(groups=1, name=f"norm_{name}")(x))

    x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
    first = source.Conv2D(share(channels), (10, 4), strides=2, padding="same", use_bias=False, name="conv")
    x = normalised("conv", first(x))
    for number in range(1, blocks + 1):
        depthwise, pointwise = f"depthwise{number}", f"pointwise{number}"
        x = normalised(depthwise, source.DepthwiseConv2D(3, padding="same", use_bias=False, name=depthwise)(x))
        x = normalised(pointwise, source.Conv2D(share(channels), 1, use_bias=False, name=pointwise)(x))
    return source.GlobalAveragePooling2D(name="mean")(x)


def _residual(source: ModuleType, x: Tensor, share: Share, channels: int, convolutions: int) -> Tensor:
    """Tang & Lin 2018: 3 x 3 convolutions of growing dilation, every second with a way around the two; the mean."""

    def convolution(number: int, x: Tensor) -> Tensor:
        options = {"dilation_rate": 2 ** (max(number - 1, 0) // 3), "use_bias": False, "activation": "relu"}
        return source.Conv2D(share(channels), 3, padding="same", name=f"conv{number}", **options)(x)

    x = around = convolution(0, source.Reshape((*x.shape[1:], 1), name="channel")(x))
    for number in range(1, convolutions + 1):
        x = convolution(number, x)
        if number % 2 == 0:
            x = around = source.Add(name=f"add{number}")([x, around])
        x = source.GroupNormalization(groups=1, center=False, scale=False, name=f"norm{number}")(x)
    return source.GlobalAveragePooling2D(name="mean")(x)


def _attention_recurrent(source: ModuleType, x: Tensor, share: Share, units: int, heads: int) -> Tensor:
    """Rybakov et al. 2020: two convolutions over time, recurrent layers, attention of the middle frame to all."""
    frames, coefficients = x.shape[1:]
    units = share(units, heads)
    x = source.Reshape((frames, coefficients, 1), name="channel")(x)
    for number, filters in enumerate((10, 1), start=1):
        x = source.Conv2D(filters, (5, 1), padding="same", use_bias=False, name=f"conv{number}")(x)
        x = source.ReLU(name=f"relu{number}")(source.GroupNormalization(groups=1, name=f"norm{number}")(x))
    x = source.Reshape((frames, coefficients), name="frames")(x)
    for number in (1, 2):
        unit = source.GRU(units, return_sequences=True, name=f"gru{number}")
        x = source.Bidirectional(unit, name=f"both{number}")(x)
    middle = source.Cropping1D((frames // 2, frames - 1 - frames // 2), name="middle")(x)
    attention = source.MultiHeadAttention(heads, units // heads, use_bias=False, name="attention")
    return source.Flatten(name="flatten")(attention(middle, x))


def _transformer(
    source: ModuleType, x: Tensor, share: Share, layers: int, width: int, inner: int, heads: int
) -> Tensor:
    """Berg et al. 2021: each frame is a token; attention and two dense layers, wider inside, repeated; the mean."""
    from model_export.layers.sequence import SinusoidalPositions

    frames, width = x.shape[1], share(width, heads)

    def dense(units: int, activation: str, name: str, x: Tensor) -> Tensor:
        return source.Conv1D(units, 1, activation=activation, name=name)(x)

    x = SinusoidalPositions(name="positions")(dense(width, "linear", "tokens", x))
    for number in range(1, layers + 1):
        attention = source.MultiHeadAttention(heads, width // heads, use_bias=False, name=f"attention{number}")
        x = source.Add(name=f"seen{number}")([x, attention(x, x)])
        x = source.LayerNormalization(name=f"norm_seen{number}")(x)
        thought = dense(share(inner), "relu", f"inner{number}", x)
        thought = dense(width, "linear", f"outer{number}", thought)
        x = source.LayerNormalization(name=f"norm{number}")(source.Add(name=f"add{number}")([x, thought]))
    x = source.Reshape((frames, 1, width), name="places")(x)
    return source.GlobalAveragePooling2D(name="mean")(x)


_NARROW, _FIRST = Block("Conv2D", 8, 5, 2, "same"), Block("Conv2D", 16, 5, 2, "same")
ARCHITECTURES: Mapping[str, Design] = {
    "ann3": Design(_dense, ((16, 16, 32),)),
    "cnn1": Design(_blocks, (_FIRST,)),
    "cnn2": Design(_blocks, (_FIRST, Block("Conv2D", 32))),
    "cnn3": Design(_blocks, (_FIRST, Block("Conv2D", 16), Block("Conv2D", 32))),
    "cnn4": Design(_blocks, (_NARROW, Block("Conv2D", 16), Block("Conv2D", 16, padding="same"), Block("Conv2D", 32))),
    "crnn_base": Design(_crnn, ((64, 64), 128, True)),
    "crnn_deep": Design(_crnn, ((64, 128, 128), 128, True)),
    "crnn_lite": Design(_crnn, ((32, 32), 64)),
    "crnn_mid": Design(_crnn, ((32, 32, 32), 64)),
    "crnn_tiny": Design(_crnn, ((16,), 32)),
    "dscnn3": Design(_blocks, (_FIRST, Block("SeparableConv2D", 16, padding="same"), Block("SeparableConv2D", 32))),
    "dscnn_172": Design(_depth_separable, (172, 5)),
    "hidden": Design(_dense, ((64,),)),
    "linear": Design(_dense, ((),)),
    "mhattrnn": Design(_attention_recurrent, (80, 4)),
    "resnet15": Design(_residual, (45, 13)),
    "transformer": Design(_transformer, (4, 96, 100, 3)),
}
