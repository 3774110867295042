"""The networks: those of Gudur & Perepu 2021, section 4, small enough to train on a Raspberry Pi 2.

Each maps normalised cepstra [n, frames, coefficients] to logits [n, capacity]. How a network shrinks its activations
is left open by the paper; ``downsampling="stride"`` is the cheap default, ``"pool"`` the literal reading, and
docs/models.md compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import keras

from model_export import layers as device_layers
from model_export.errors import ExportError

ACTIVATIONS = ("relu", "softmax")
DOWNSAMPLINGS = ("stride", "pool")


@dataclass(frozen=True)
class Block:
    """One hidden layer: ``kind`` is a layer's class; kernel and stride are for convolutions."""

    kind: str
    units: int
    kernel: int = 3
    stride: int = 1


def _conv(units: int, kernel: int = 3, stride: int = 1) -> Block:
    return Block("Conv2D", units, kernel, stride)


def _separable(units: int, kernel: int = 3, stride: int = 1) -> Block:
    return Block("SeparableConv2D", units, kernel, stride)


ARCHITECTURES: dict[str, tuple[Block, ...]] = {
    "cnn1": (_conv(16, 5, 2),),
    "cnn2": (_conv(16, 5, 2), _conv(32, 3, 2)),
    "cnn3": (_conv(16, 5, 2), _conv(16), _conv(32, 3, 2)),
    "cnn4": (_conv(8, 5, 2), _conv(16), _conv(16, 3, 2), _conv(32)),
    "dscnn3": (_conv(16, 5, 2), _separable(16), _separable(32, 3, 2)),
    "ann3": (Block("Dense", 16), Block("Dense", 16), Block("Dense", 32)),
}


def build(
    architecture: str,
    input_shape: tuple[int, int],
    capacity: int,
    *,
    activation: str = "relu",
    downsampling: str = "stride",
    seed: int = 0,
    stock: bool = False,
) -> keras.Sequential:
    """Build a network with seeded weights.

    Args:
        architecture: a key of :data:`ARCHITECTURES`.
        input_shape: (frames, coefficients).
        capacity: outputs of the head.
        activation: of the hidden layers, one of :data:`ACTIVATIONS`.
        downsampling: one of :data:`DOWNSAMPLINGS`.
        seed: of the initial weights (Glorot uniform).
        stock: use Keras's own layers instead of those that train on a device; the weights are the same.

    Raises:
        ExportError: there is no such architecture or option.
    """
    _require("architecture", architecture, tuple(ARCHITECTURES))
    _require("activation", activation, ACTIVATIONS)
    _require("downsampling", downsampling, DOWNSAMPLINGS)
    if capacity < 2:
        raise ExportError(f"a head of capacity {capacity} can tell nothing apart; use --capacity 2 or more")
    keras.utils.set_random_seed(seed)
    source = keras.layers if stock else device_layers
    model = keras.Sequential([keras.Input(input_shape)], name=architecture)
    blocks = ARCHITECTURES[architecture]
    if blocks[0].kind == "Dense":
        model.add(source.Flatten(name="flatten"))
    else:
        model.add(source.Reshape((*input_shape, 1), name="channel"))
    for number, block in enumerate(blocks, start=1):
        _add(model, source, block, number, activation, downsampling)
    if blocks[0].kind != "Dense":
        model.add(source.Flatten(name="flatten"))
    model.add(source.Dense(capacity, name="head"))
    return model


def _add(
    model: keras.Sequential, source: ModuleType, block: Block, number: int, activation: str, downsampling: str
) -> None:
    if block.kind == "Dense":
        model.add(source.Dense(block.units, activation=activation, name=f"dense{number}"))
        return
    pool = downsampling == "pool"
    kernel, stride = (3, 1) if pool else (block.kernel, block.stride)
    stock_padding = {"padding": "same"} if source is keras.layers else {}  # the device's layers know no other
    layer = getattr(source, block.kind)(
        block.units, kernel, strides=stride, activation=activation, name=f"conv{number}", **stock_padding
    )
    model.add(layer)
    if pool and min(model.output_shape[1:3]) >= 2:  # a small input is used up before the last layer
        model.add(source.AveragePooling2D(2, name=f"pool{number}"))


def _require(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ExportError(f"unknown {what} {value!r}; known: {', '.join(known)}")
