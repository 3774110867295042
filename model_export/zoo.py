"""Builds the networks of `designs.py`: normalised cepstra [n, frames, coefficients] to logits [n, capacity]."""

from __future__ import annotations

from types import ModuleType

import keras

from model_export import device_layers, networks
from model_export.designs import ARCHITECTURES, Block, narrowed
from model_export.specification import Specification


def build(specification: Specification, *, stock: bool = False) -> keras.Model:
    """Build a network with seeded weights (Glorot uniform; biases zero; recurrent ones orthogonal).

    Its last layer is the head.

    Args:
        specification: which one.
        stock: use Keras's own layers instead of those that train on a device; both take the same weights.
    """
    keras.utils.set_random_seed(specification.seed)
    source = keras.layers if stock else device_layers
    design = narrowed(ARCHITECTURES[specification.architecture], specification.width)
    if isinstance(design, tuple):
        return _build_blocks(specification, source, design)
    x = keras.Input(specification.settings.shape)
    embedding = networks.connect(design, source, x)
    logits = source.Dense(specification.capacity, name="head")(embedding)
    return keras.Model(x, logits, name=specification.architecture)


def _build_blocks(specification: Specification, source: ModuleType, blocks: tuple[Block, ...]) -> keras.Sequential:
    """Build a network of Gudur & Perepu 2021."""
    input_shape, activation = specification.settings.shape, specification.activation
    model = keras.Sequential([keras.Input(input_shape)], name=specification.architecture)
    if blocks[0].kind == "Dense":
        model.add(source.Flatten(name="flatten"))
        for number, block in enumerate(blocks, start=1):
            model.add(source.Dense(block.units, activation=activation, name=f"dense{number}"))
    else:
        model.add(source.Reshape((*input_shape, 1), name="channel"))
        _CONVOLUTIONS[specification.downsampling](model, source, blocks, activation)
        model.add(source.Flatten(name="flatten"))
    model.add(source.Dense(specification.capacity, name="head"))
    return model


def _add_strided(model: keras.Sequential, source: ModuleType, blocks: tuple[Block, ...], activation: str) -> None:
    """A strided first convolution, and at the end the mean over time."""
    for number, block in enumerate(blocks, start=1):
        strides = {"strides": block.strides} if block.kind == "Conv2D" else {}
        layer = getattr(source, block.kind)(
            block.units, block.kernel, padding=block.padding, activation=activation, name=f"conv{number}", **strides
        )
        model.add(layer)
    model.add(source.AveragePooling2D((model.output_shape[1], 1), name="pool"))


def _add_pooled(model: keras.Sequential, source: ModuleType, blocks: tuple[Block, ...], activation: str) -> None:
    """The textbook's form: every 3 x 3 convolution is followed by 2 x 2 average pooling."""
    for number, block in enumerate(blocks, start=1):
        layer = getattr(source, block.kind)(block.units, 3, padding="same", activation=activation, name=f"conv{number}")
        model.add(layer)
        if min(model.output_shape[1:3]) >= 2:  # a small input is used up before the last layer
            model.add(source.AveragePooling2D((2, 2), name=f"pool{number}"))


_CONVOLUTIONS = {"stride": _add_strided, "pool": _add_pooled}
