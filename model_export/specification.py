"""What a bundle is built from: a network of the zoo, the features that it takes, and options."""

from __future__ import annotations

from dataclasses import dataclass

from fleet_protocol.bundle.bundle_file import BACKGROUND
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.joint_statistics import unpack_statistics
from model_export.errors import ExportError
from model_export.feature_statistics import Normalisation
from model_export.zoo import ARCHITECTURES, Design


@dataclass(frozen=True)
class Specification:
    """What to build."""

    architecture: str  # a name in the zoo
    settings: FeatureSettings  # of the features that the model takes
    normalisation: Normalisation  # of those features
    capacity: int = 32  # slots for classes
    batch: int = 32  # rows of a training step
    width: float = 1.0  # share of every hidden layer's channels and units that are kept
    seed: int = 0  # of the initial weights
    # the words of the pretraining of each of the features' networks, packed; none where they have none
    statistics: tuple[bytes, ...] = ()
    design: Design | None = None  # the network, where it is one of your own; ``architecture`` is then its name

    def __post_init__(self) -> None:
        """Check the options."""
        if self.design is None and self.architecture not in ARCHITECTURES:
            raise ExportError(f"unknown architecture {self.architecture!r}; known: {', '.join(ARCHITECTURES)}")
        if self.capacity < 2:
            raise ExportError(f"a head of capacity {self.capacity} can tell nothing apart; use --capacity 2 or more")
        if not 0.01 <= self.width <= 4:
            raise ExportError(f"--width {self.width:g} is not from 0.01 to 4; 1 is the network as it was published")
        if not 0 <= self.seed < 2**32:
            raise ExportError(f"--seed must be from 0 to {2**32 - 1}, not {self.seed}")
        if self.batch < 1:
            raise ExportError(f"a training step needs at least 1 row, not --batch {self.batch}")

    @property
    def network(self) -> Design:
        """The network's layers."""
        return self.design or ARCHITECTURES[self.architecture]

    @property
    def outputs(self) -> int:
        """Outputs of the head: slots and background."""
        return self.capacity + len(self.background)

    @property
    def background(self) -> tuple[str, ...]:
        """What the head's outputs beyond the slots mean: the words of the pretraining, and what is none of them."""
        statistics = unpack_statistics(self.statistics)
        return (*statistics.words, *BACKGROUND) if statistics else ()

    @property
    def options(self) -> dict[str, str]:
        """What was chosen where this architecture leaves a choice."""
        return {} if self.width == 1.0 else {"width": f"{self.width:g}"}
