"""The networks of Gudur & Perepu 2021, section 4: small convolutional, depth-separable and dense ones.

What the paper leaves open is said in docs/models.md, with why it was chosen so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class Block:
    """One hidden layer: ``kind`` is a layer's class; the rest is for convolutions."""

    kind: str
    units: int
    kernel: int = 3
    strides: int = 1
    padding: str = "valid"


@dataclass(frozen=True)
class Blocks(Design):
    """A chain of hidden layers."""

    has_options: ClassVar[bool] = True
    blocks: tuple[Block, ...]

    def narrowed(self, width: float) -> Self:
        """Keep a share of every layer's units."""
        return replace(self, blocks=tuple(replace(block, units=share(block.units, width)) for block in self.blocks))

    def connect(self, source: ModuleType, x: Tensor, activation: str, downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""
        if self.blocks[0].kind == "Dense":
            x = source.Flatten(name="flatten")(x)
            for number, block in enumerate(self.blocks, start=1):
                x = source.Dense(block.units, activation=activation, name=f"dense{number}")(x)
            return x
        x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
        x = _CONVOLUTIONS[downsampling](source, x, self.blocks, activation)
        return source.Flatten(name="flatten")(x)


def _strided(source: ModuleType, x: Tensor, blocks: tuple[Block, ...], activation: str) -> Tensor:
    """A strided first convolution, and at the end the mean over time."""
    for number, block in enumerate(blocks, start=1):
        strides = {"strides": block.strides} if block.kind == "Conv2D" else {}
        x = getattr(source, block.kind)(
            block.units, block.kernel, padding=block.padding, activation=activation, name=f"conv{number}", **strides
        )(x)
    return source.AveragePooling2D((x.shape[1], 1), name="pool")(x)


def _pooled(source: ModuleType, x: Tensor, blocks: tuple[Block, ...], activation: str) -> Tensor:
    """The textbook's form: every 3 x 3 convolution is followed by 2 x 2 average pooling."""
    for number, block in enumerate(blocks, start=1):
        layer = getattr(source, block.kind)
        x = layer(block.units, 3, padding="same", activation=activation, name=f"conv{number}")(x)
        if min(x.shape[1:3]) >= 2:  # a small input is used up before the last layer
            x = source.AveragePooling2D((2, 2), name=f"pool{number}")(x)
    return x


_CONVOLUTIONS = {"stride": _strided, "pool": _pooled}


def _conv(units: int, kernel: int = 3, strides: int = 1, padding: str = "valid") -> Block:
    return Block("Conv2D", units, kernel, strides, padding)


def _separable(units: int, padding: str = "valid") -> Block:
    return Block("SeparableConv2D", units, padding=padding)


MODELS: dict[str, Design] = {
    "cnn1": Blocks((_conv(16, 5, 2, "same"),)),
    "cnn2": Blocks((_conv(16, 5, 2, "same"), _conv(32))),
    "cnn3": Blocks((_conv(16, 5, 2, "same"), _conv(16), _conv(32))),
    "cnn4": Blocks((_conv(8, 5, 2, "same"), _conv(16), _conv(16, padding="same"), _conv(32))),
    "dscnn3": Blocks((_conv(16, 5, 2, "same"), _separable(16, padding="same"), _separable(32))),
    "ann3": Blocks((Block("Dense", 16), Block("Dense", 16), Block("Dense", 32))),
}
