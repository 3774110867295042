"""What a bundle is built from: a network of the zoo, the features that it takes, and options.

How a network of Gudur & Perepu 2021 shrinks its activations is left open by the paper: ``stride`` is the cheap and
more accurate default, ``pool`` the literal reading (docs/models.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, Self

from fleet_protocol.bundle import BACKGROUND, Manifest
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.joint_statistics import unpack_statistics
from fleet_protocol.tensors import Arrays
from model_export.errors import ExportError
from model_export.feature_statistics import Normalisation
from model_export.zoo import ARCHITECTURES

if TYPE_CHECKING:
    from model_export.layers.operators import Tensor

ACTIVATIONS = ("relu", "softmax")
DOWNSAMPLINGS = ("stride", "pool")
ALPHABET = "abcdefghijklmnopqrstuvwxyz '"


class Pretrained(Protocol):
    """Pretrained layers that train, in front of a network of the zoo."""

    @property
    def trains(self) -> str:
        """What of the pretrained network these layers are."""

    @property
    def weights(self) -> Arrays:
        """Weights that they start with, by the names that a bundle gives them."""

    def connect(self, source: ModuleType, x: Tensor) -> Tensor:
        """Map features [n, frames, numbers per frame] to embeddings [n, 1, numbers]."""


@dataclass(frozen=True)
class Specification:
    """What to build."""

    architecture: str  # a name in the zoo
    settings: FeatureSettings  # of the features that the model takes
    normalisation: Normalisation  # of those features
    capacity: int = 32  # slots for classes
    batch: int = 32  # rows of a training step
    activation: str = "relu"  # of the hidden layers; an option of some networks (convolutional.py) alone
    downsampling: str = "stride"  # how activations shrink; likewise
    width: float = 1.0  # share of every hidden layer's channels and units that are kept
    seed: int = 0  # of the initial weights
    # the words of the pretraining of each of the features' networks, packed; none where they have none
    statistics: tuple[bytes, ...] = ()
    pretrained: Pretrained | None = None  # layers in front of the network's, which train too; None: only its own do
    alphabet: str = ALPHABET  # characters that a network that transcribes can write

    def __post_init__(self) -> None:
        """Check the options."""
        _require("architecture", self.architecture, tuple(ARCHITECTURES))
        _require("activation", self.activation, ACTIVATIONS)
        _require("downsampling", self.downsampling, DOWNSAMPLINGS)
        has_options = ARCHITECTURES[self.architecture].has_options
        if not has_options and (self.activation, self.downsampling) != ("relu", "stride"):
            known = ", ".join(name for name, design in ARCHITECTURES.items() if design.has_options)
            raise ExportError(f"{self.architecture} has no choice of activation and downsampling; only {known} have")
        if self.capacity < 2:
            raise ExportError(f"a head of capacity {self.capacity} can tell nothing apart; use --capacity 2 or more")
        if self.characters and self.statistics:
            raise ExportError(f"{self.architecture} hears frames in turn; take --features of sound, e.g. utterance")
        if len(set(self.alphabet)) != len(self.alphabet) or not self.alphabet:
            raise ExportError(f"the alphabet {self.alphabet!r} needs at least one character, and each of them once")
        if not 0.01 <= self.width <= 4:
            raise ExportError(f"--width {self.width:g} is not from 0.01 to 4; 1 is the network as it was published")
        if self.batch < 1:
            raise ExportError(f"a training step needs at least 1 row, not --batch {self.batch}")

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Return what a bundle was built from, of which no pretrained layers train."""
        options = manifest.options
        return cls(
            manifest.architecture,
            manifest.feature_settings,
            Normalisation(manifest.mean, manifest.std),
            capacity=manifest.slots,
            batch=manifest.batch,
            activation=options.get("activation", "relu"),
            downsampling=options.get("downsampling", "stride"),
            width=float(options.get("width", 1.0)),
            seed=manifest.seed,
            statistics=manifest.statistics,
        )

    @property
    def characters(self) -> str:
        """What the head's outputs behind the blank write; empty where they mean classes."""
        return self.alphabet if ARCHITECTURES[self.architecture].transcribes else ""

    @property
    def outputs(self) -> int:
        """Outputs of the head: slots and background, or the blank and the characters."""
        return 1 + len(self.characters) if self.characters else self.capacity + len(self.background)

    @property
    def background(self) -> tuple[str, ...]:
        """What the head's outputs beyond the slots mean: the words of the pretraining, and what is none of them."""
        statistics = unpack_statistics(self.statistics)
        return (*statistics.words, *BACKGROUND) if statistics else ()

    @property
    def options(self) -> dict[str, str]:
        """What was chosen where this architecture leaves a choice."""
        chosen = {} if self.width == 1.0 else {"width": f"{self.width:g}"}
        if self.pretrained:
            chosen["trains"] = self.pretrained.trains
        if not ARCHITECTURES[self.architecture].has_options:
            return chosen
        return chosen | {"activation": self.activation, "downsampling": self.downsampling}


def _require(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ExportError(f"unknown {what} {value!r}; known: {', '.join(known)}")
