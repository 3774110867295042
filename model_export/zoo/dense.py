"""Heads for a front end that is a network itself: nothing, or one dense layer, in front of the classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class Dense(Design):
    """Dense layers of so many units on all numbers of a clip."""

    units: tuple[int, ...]

    def narrowed(self, width: float) -> Self:
        """Keep a share of the units."""
        return replace(self, units=tuple(share(number, width) for number in self.units))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""
        x = source.Flatten(name="flatten")(x)
        for number, units in enumerate(self.units, start=1):
            x = source.Dense(units, activation="relu", name=f"dense{number}")(x)
        return x


MODELS: dict[str, Design] = {"linear": Dense(()), "hidden": Dense((64,))}
