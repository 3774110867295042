"""DCNN-CTC (Xu et al. 2025, table 1): convolutions and max-pooling, then dense layers at every step of the output.

The head says a character, or none, at each step; connectionist temporal classification (Graves et al. 2006) trains it
on texts that do not say when each character was spoken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

from model_export.zoo.design import Design, Tensor, share

_POOLS = ((2, 2), (2, 2), (1, 2), (1, 2), (1, 2))


@dataclass(frozen=True)
class ConvolutionalSpeech(Design):
    """Convolutions, each followed by max-pooling, and a dense layer at every step.

    The first two pools halve the time. The published network halves it a third time: the Mandarin syllables that it
    writes come at five a second, English letters at up to fifteen.
    """

    transcribes: ClassVar[bool] = True
    filters: tuple[int, ...]
    units: int

    def narrowed(self, width: float) -> Self:
        """Keep a share of the filters and units."""
        filters = tuple(share(number, width) for number in self.filters)
        return replace(self, filters=filters, units=share(self.units, width))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers to [n, frames / 4, units]; see :class:`Design`."""
        x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
        for number, (filters, size) in enumerate(zip(self.filters, _POOLS, strict=True), start=1):
            x = source.Conv2D(filters, 3, padding="same", use_bias=False, name=f"conv{number}")(x)
            rows, columns = (min(length, places) for length, places in zip(size, x.shape[1:3], strict=True))
            if rows * columns > 1:  # a small input is used up before the last layer
                x = source.MaxPooling2D((rows, columns), name=f"pool{number}")(x)
            # Behind the pool there is half or a quarter of the activations to normalise.
            x = source.GroupNormalization(groups=1, name=f"norm{number}")(x)
            x = source.ReLU(name=f"relu{number}")(x)
        x = source.Reshape((x.shape[1], x.shape[2] * x.shape[3]), name="steps")(x)
        return source.Dense(self.units, activation="relu", name="dense")(x)


MODELS: dict[str, Design] = {"dcnn_ctc": ConvolutionalSpeech((32, 64, 128, 128, 128), 128)}
