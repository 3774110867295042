"""DSCNN (Zhang et al. 2017, "Hello Edge"): a strided convolution of 10 x 4, depth-separable ones of 3 x 3, the mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class DepthSeparable(Design):
    """A convolution, so many depth-separable blocks, and the mean over time and frequency."""

    channels: int
    blocks: int

    def narrowed(self, width: float) -> Self:
        """Keep a share of the channels."""
        return replace(self, channels=share(self.channels, width))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""

        def normalised(name: str, x: Tensor) -> Tensor:
            return source.ReLU(name=f"relu_{name}")(source.GroupNormalization(groups=1, name=f"norm_{name}")(x))

        x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
        first = source.Conv2D(self.channels, (10, 4), strides=2, padding="same", use_bias=False, name="conv")
        x = normalised("conv", first(x))
        for number in range(1, self.blocks + 1):
            depthwise, pointwise = f"depthwise{number}", f"pointwise{number}"
            x = normalised(depthwise, source.DepthwiseConv2D(3, padding="same", use_bias=False, name=depthwise)(x))
            x = normalised(pointwise, source.Conv2D(self.channels, 1, use_bias=False, name=pointwise)(x))
        return source.GlobalAveragePooling2D(name="mean")(x)


MODELS: dict[str, Design] = {"dscnn_172": DepthSeparable(172, 5)}
