"""Keyword Transformer (Berg et al. 2021): each frame is a token; attention and two dense layers, repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class KeywordTransformer(Design):
    """So many layers of attention on tokens of some width, with dense layers that are wider inside."""

    layers: int
    width: int
    inner: int
    heads: int

    def narrowed(self, width: float) -> Self:
        """Keep a share of the width, a multiple of the heads, and of the inner units."""
        return replace(self, width=share(self.width, width, self.heads), inner=share(self.inner, width))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""
        from model_export.layers.attention import SinusoidalPositions

        frames = x.shape[1]

        def dense(units: int, activation: str, name: str, x: Tensor) -> Tensor:
            return source.Conv1D(units, 1, activation=activation, name=name)(x)

        x = SinusoidalPositions(name="positions")(dense(self.width, "linear", "tokens", x))
        for number in range(1, self.layers + 1):
            attention = source.MultiHeadAttention(
                self.heads, self.width // self.heads, use_bias=False, name=f"attention{number}"
            )
            x = source.Add(name=f"seen{number}")([x, attention(x, x)])
            x = source.LayerNormalization(name=f"norm_seen{number}")(x)
            thought = dense(self.inner, "relu", f"inner{number}", x)
            thought = dense(self.width, "linear", f"outer{number}", thought)
            x = source.LayerNormalization(name=f"norm{number}")(source.Add(name=f"add{number}")([x, thought]))
        x = source.Reshape((frames, 1, self.width), name="places")(x)
        return source.GlobalAveragePooling2D(name="mean")(x)


MODELS: dict[str, Design] = {"transformer": KeywordTransformer(4, 96, 100, 3)}
