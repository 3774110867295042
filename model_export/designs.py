"""Networks as data: of Gudur & Perepu 2021, section 4; FedMLAC (Bai et al. 2025, table 3); FedKWS-UI (Li et al. 2022).

What a paper leaves open is said in docs/models.md, with why it was chosen so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Block:
    """One hidden layer: ``kind`` is a layer's class; the rest is for convolutions."""

    kind: str
    units: int
    kernel: int = 3
    strides: int = 1
    padding: str = "valid"


@dataclass(frozen=True)
class ConvolutionalRecurrent:
    """CRNN: convolutions over time, each halving the time by max-pooling, then a gated recurrent unit's last state."""

    filters: tuple[int, ...]
    units: int
    bidirectional: bool = False


@dataclass(frozen=True)
class DepthSeparable:
    """DSCNN (Zhang et al. 2017): a strided convolution of 10 x 4, depth-separable ones of 3 x 3, the mean of all."""

    channels: int
    blocks: int


@dataclass(frozen=True)
class Residual:
    """ResNet (Tang & Lin 2018): 3 x 3 convolutions of growing dilation, every second with a way around the two."""

    channels: int
    convolutions: int


@dataclass(frozen=True)
class AttentionRecurrent:
    """MHAttRNN (Rybakov et al. 2020): two convolutions over time, two bidirectional recurrent layers, attention."""

    units: int
    heads: int


@dataclass(frozen=True)
class KeywordTransformer:
    """Keyword Transformer (Berg et al. 2021): each frame is a token; attention and two dense layers, repeated."""

    layers: int
    width: int
    inner: int
    heads: int


Design = (
    tuple[Block, ...] | ConvolutionalRecurrent | DepthSeparable | Residual | AttentionRecurrent | KeywordTransformer
)


def _conv(units: int, kernel: int = 3, strides: int = 1, padding: str = "valid") -> Block:
    return Block("Conv2D", units, kernel, strides, padding)


def _separable(units: int, padding: str = "valid") -> Block:
    return Block("SeparableConv2D", units, padding=padding)


# The ones below have options: what activates their hidden layers, and how activations shrink.
BLOCKS: dict[str, tuple[Block, ...]] = {
    "cnn1": (_conv(16, 5, 2, "same"),),
    "cnn2": (_conv(16, 5, 2, "same"), _conv(32)),
    "cnn3": (_conv(16, 5, 2, "same"), _conv(16), _conv(32)),
    "cnn4": (_conv(8, 5, 2, "same"), _conv(16), _conv(16, padding="same"), _conv(32)),
    "dscnn3": (_conv(16, 5, 2, "same"), _separable(16, padding="same"), _separable(32)),
    "ann3": (Block("Dense", 16), Block("Dense", 16), Block("Dense", 32)),
}
ARCHITECTURES: dict[str, Design] = {
    **BLOCKS,
    "crnn_tiny": ConvolutionalRecurrent((16,), 32),
    "crnn_lite": ConvolutionalRecurrent((32, 32), 64),
    "crnn_mid": ConvolutionalRecurrent((32, 32, 32), 64),
    "crnn_base": ConvolutionalRecurrent((64, 64), 128, bidirectional=True),
    "crnn_deep": ConvolutionalRecurrent((64, 128, 128), 128, bidirectional=True),
    "dscnn_small": DepthSeparable(64, 4),
    "dscnn_172": DepthSeparable(172, 5),
    "resnet15": Residual(45, 13),
    "mhattrnn": AttentionRecurrent(80, 4),
    "transformer": KeywordTransformer(4, 96, 100, 3),
}


def narrowed(design: Design, width: float) -> Design:
    """Return a design with a share of its channels and units: the width multiplier of Howard et al. 2017."""

    def share(number: int, multiple: int = 1) -> int:
        return max(1, round(number * width / multiple)) * multiple

    if isinstance(design, tuple):
        return tuple(replace(block, units=share(block.units)) for block in design)
    if isinstance(design, ConvolutionalRecurrent):
        return replace(design, filters=tuple(map(share, design.filters)), units=share(design.units))
    if isinstance(design, AttentionRecurrent):
        return replace(design, units=share(design.units, design.heads))
    if isinstance(design, KeywordTransformer):
        return replace(design, width=share(design.width, design.heads), inner=share(design.inner))
    return replace(design, channels=share(design.channels))
