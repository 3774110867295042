"""Connects the layers of the larger networks of `designs.py`, from features to what the head is given.

`source` is where the layers come from: those that train on a device, or Keras's own, against which they are tested.
"""

from __future__ import annotations

from functools import singledispatch
from types import ModuleType

from model_export.designs import ConvolutionalRecurrent, Design
from model_export.operators import Tensor


@singledispatch
def connect(design: Design, source: ModuleType, x: Tensor) -> Tensor:
    """Map normalised cepstra [n, frames, coefficients] to the embedding [n, width]."""
    raise NotImplementedError(f"no network is known for {design}")


@connect.register
def _(design: ConvolutionalRecurrent, source: ModuleType, x: Tensor) -> Tensor:
    for number, filters in enumerate(design.filters, start=1):
        x = source.Conv1D(filters, 3, padding="same", activation="relu", name=f"conv{number}")(x)
        if x.shape[1] >= 2:  # a short input is used up before the last layer
            x = source.MaxPooling1D(name=f"pool{number}")(x)
    unit = source.GRU(design.units, name="gru")
    return (source.Bidirectional(unit, name="both") if design.bidirectional else unit)(x)
