"""What a bundle is built from: the networks of Gudur & Perepu 2021, section 4, as data, and their options.

How a network shrinks its activations is left open by the paper: ``stride`` is the cheap and more accurate default,
``pool`` the literal reading; docs/models.md compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_protocol.feature_settings import FeatureSettings
from model_export.errors import ExportError
from model_export.normalisation import Normalisation

ACTIVATIONS = ("relu", "softmax")
DOWNSAMPLINGS = ("stride", "pool")


@dataclass(frozen=True)
class Block:
    """One hidden layer: ``kind`` is a layer's class; the rest is for convolutions."""

    kind: str
    units: int
    kernel: int = 3
    strides: int = 1
    padding: str = "valid"


def _conv(units: int, kernel: int = 3, strides: int = 1, padding: str = "valid") -> Block:
    return Block("Conv2D", units, kernel, strides, padding)


def _separable(units: int, padding: str = "valid") -> Block:
    return Block("SeparableConv2D", units, padding=padding)


ARCHITECTURES: dict[str, tuple[Block, ...]] = {
    "cnn1": (_conv(16, 5, 2, "same"),),
    "cnn2": (_conv(16, 5, 2, "same"), _conv(32)),
    "cnn3": (_conv(16, 5, 2, "same"), _conv(16), _conv(32)),
    "cnn4": (_conv(8, 5, 2, "same"), _conv(16), _conv(16, padding="same"), _conv(32)),
    "dscnn3": (_conv(16, 5, 2, "same"), _separable(16, padding="same"), _separable(32)),
    "ann3": (Block("Dense", 16), Block("Dense", 16), Block("Dense", 32)),
}


@dataclass(frozen=True)
class Specification:
    """What to build.

    Attributes:
        architecture: a name in the zoo.
        settings: of the features that the model takes.
        normalisation: of those features.
        capacity: outputs of the head.
        batch: rows of a training step.
        activation: of the hidden layers.
        downsampling: how activations shrink.
        seed: of the initial weights.
    """

    architecture: str
    settings: FeatureSettings
    normalisation: Normalisation
    capacity: int = 32
    batch: int = 32
    activation: str = "relu"
    downsampling: str = "stride"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ExportError: there is no such architecture or option, or a number is too small.
        """
        _require("architecture", self.architecture, tuple(ARCHITECTURES))
        _require("activation", self.activation, ACTIVATIONS)
        _require("downsampling", self.downsampling, DOWNSAMPLINGS)
        if self.capacity < 2:
            raise ExportError(f"a head of capacity {self.capacity} can tell nothing apart; use --capacity 2 or more")
        if self.batch < 1:
            raise ExportError(f"a training step needs at least 1 row, not --batch {self.batch}")


def _require(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ExportError(f"unknown {what} {value!r}; known: {', '.join(known)}")
