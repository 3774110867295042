"""Every layer that trains on a device, under the name that Keras gives its own: what the zoo builds networks of."""

from __future__ import annotations

from keras.layers import Add

from model_export.layers.attention import MultiHeadAttention
from model_export.layers.feed_forward import Conv2D, Dense, DepthwiseConv2D, Flatten, ReLU, Reshape, SeparableConv2D
from model_export.layers.normalisation import GroupNormalization, LayerNormalization
from model_export.layers.pooling import AveragePooling2D, GlobalAveragePooling2D, MaxPooling1D, MaxPooling2D
from model_export.layers.sequence import GRU, Bidirectional, Conv1D, Cropping1D

__all__ = [
    "GRU",
    "Add",
    "AveragePooling2D",
    "Bidirectional",
    "Conv1D",
    "Conv2D",
    "Cropping1D",
    "Dense",
    "DepthwiseConv2D",
    "Flatten",
    "GlobalAveragePooling2D",
    "GroupNormalization",
    "LayerNormalization",
    "MaxPooling1D",
    "MaxPooling2D",
    "MultiHeadAttention",
    "ReLU",
    "Reshape",
    "SeparableConv2D",
]
