"""MHAttRNN (Rybakov et al. 2020): two convolutions over time, two bidirectional recurrent layers, attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class AttentionRecurrent(Design):
    """Recurrent layers of so many units, and attention of the middle frame to all frames."""

    units: int
    heads: int

    def narrowed(self, width: float) -> Self:
        """Keep a share of the units, a multiple of the heads."""
        return replace(self, units=share(self.units, width, self.heads))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""
        frames, coefficients = x.shape[1:]
        x = source.Reshape((frames, coefficients, 1), name="channel")(x)
        for number, filters in enumerate((10, 1), start=1):
            x = source.Conv2D(filters, (5, 1), padding="same", use_bias=False, name=f"conv{number}")(x)
            x = source.ReLU(name=f"relu{number}")(source.GroupNormalization(groups=1, name=f"norm{number}")(x))
        x = source.Reshape((frames, coefficients), name="frames")(x)
        for number in (1, 2):
            unit = source.GRU(self.units, return_sequences=True, name=f"gru{number}")
            x = source.Bidirectional(unit, name=f"both{number}")(x)
        middle = source.Cropping1D((frames // 2, frames - 1 - frames // 2), name="middle")(x)
        attention = source.MultiHeadAttention(self.heads, self.units // self.heads, use_bias=False, name="attention")
        return source.Flatten(name="flatten")(attention(middle, x))


MODELS: dict[str, Design] = {"mhattrnn": AttentionRecurrent(80, 4)}
