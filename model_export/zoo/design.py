"""What a network of the zoo is: data that can be narrowed, and that says how its layers are connected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any, ClassVar, Self

Tensor = Any  # the command line lists the networks without loading TensorFlow


class Design(ABC):
    """A network, from features to what the head is given."""

    has_options: ClassVar[bool] = False  # Whether a bundle can choose the activation and the downsampling
    transcribes: ClassVar[bool] = (
        False  # Whether the head says a character at every step, in place of one class of a clip
    )

    @abstractmethod
    def narrowed(self, width: float) -> Self:
        """Return the network with a share of its channels and units: the width multiplier of Howard et al. 2017."""

    @abstractmethod
    def connect(self, source: ModuleType, x: Tensor, activation: str, downsampling: str) -> Tensor:
        """Map normalised features [n, frames, numbers per frame] to the embedding [n, width].

        Networks that transcribe have an embedding of each step, [n, steps, width].

        Args:
            source: where the layers come from: those that train on a device, or Keras's own, against which they are
                tested.
            x: the features.
            activation: of the hidden layers, where the network has options.
            downsampling: how activations shrink, where the network has options.
        """


def share(number: int, width: float, multiple: int = 1) -> int:
    """Return a share of a number of channels or units, at least 1, as a multiple of a number."""
    return max(1, round(number * width / multiple)) * multiple
