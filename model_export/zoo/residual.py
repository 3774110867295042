"""ResNet (Tang & Lin 2018): 3 x 3 convolutions of growing dilation, every second with a way around the two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class Residual(Design):
    """So many dilated convolutions of as many channels, and the mean over time and frequency."""

    channels: int
    convolutions: int

    def narrowed(self, width: float) -> Self:
        """Keep a share of the channels."""
        return replace(self, channels=share(self.channels, width))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""

        def convolution(number: int, x: Tensor) -> Tensor:
            dilation = 2 ** (max(number - 1, 0) // 3)
            layer = source.Conv2D(
                self.channels,
                3,
                padding="same",
                dilation_rate=dilation,
                use_bias=False,
                activation="relu",
                name=f"conv{number}",
            )
            return layer(x)

        x = around = convolution(0, source.Reshape((*x.shape[1:], 1), name="channel")(x))
        for number in range(1, self.convolutions + 1):
            x = convolution(number, x)
            if number % 2 == 0:
                x = around = source.Add(name=f"add{number}")([x, around])
            x = source.GroupNormalization(groups=1, center=False, scale=False, name=f"norm{number}")(x)
        return source.GlobalAveragePooling2D(name="mean")(x)


MODELS: dict[str, Design] = {"resnet15": Residual(45, 13)}
