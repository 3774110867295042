"""Every layer that trains on a device, under the name that Keras gives its own: what `zoo.py` builds networks of."""

from __future__ import annotations

from model_export.layers import AveragePooling2D, Conv2D, Dense, Flatten, Reshape, SeparableConv2D
from model_export.sequence_layers import GRU, Bidirectional, Conv1D, MaxPooling1D

__all__ = [
    "GRU",
    "AveragePooling2D",
    "Bidirectional",
    "Conv1D",
    "Conv2D",
    "Dense",
    "Flatten",
    "MaxPooling1D",
    "Reshape",
    "SeparableConv2D",
]
