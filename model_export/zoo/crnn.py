"""CRNN (Bai et al. 2025, "FedMLAC", table 3): convolutions over time, then a gated recurrent unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Self

from model_export.zoo.design import Design, Tensor, share


@dataclass(frozen=True)
class ConvolutionalRecurrent(Design):
    """Convolutions over time, each halving the time by max-pooling, then a gated recurrent unit's last state."""

    filters: tuple[int, ...]
    units: int
    bidirectional: bool = False

    def narrowed(self, width: float) -> Self:
        """Keep a share of the filters and units."""
        filters = tuple(share(number, width) for number in self.filters)
        return replace(self, filters=filters, units=share(self.units, width))

    def connect(self, source: ModuleType, x: Tensor, _activation: str, _downsampling: str) -> Tensor:
        """Connect the layers; see :class:`Design`."""
        for number, filters in enumerate(self.filters, start=1):
            x = source.Conv1D(filters, 3, padding="same", activation="relu", name=f"conv{number}")(x)
            if x.shape[1] >= 2:  # a short input is used up before the last layer
                x = source.MaxPooling1D(name=f"pool{number}")(x)
        unit = source.GRU(self.units, name="gru")
        return (source.Bidirectional(unit, name="both") if self.bidirectional else unit)(x)


MODELS: dict[str, Design] = {
    "crnn_tiny": ConvolutionalRecurrent((16,), 32),
    "crnn_lite": ConvolutionalRecurrent((32, 32), 64),
    "crnn_mid": ConvolutionalRecurrent((32, 32, 32), 64),
    "crnn_base": ConvolutionalRecurrent((64, 64), 128, bidirectional=True),
    "crnn_deep": ConvolutionalRecurrent((64, 128, 128), 128, bidirectional=True),
}
