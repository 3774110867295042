"""The network of Xu et al. 2025, table 1: what a bundle of it is built from.

Run as `python -m studies.speech.network OUTPUT WIDTH BATCH`, apart from TensorFlow Lite; it writes an untrained bundle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from fleet_protocol.bundle.feature_settings import LogMelSettings, preset
from fleet_protocol.ground.atomic_files import write_durably
from model_export.bundle import build_bundle
from model_export.feature_statistics import Normalisation
from model_export.layers.operators import max_pool_pairs
from model_export.specification import Specification
from model_export.zoo import Design, Share
from studies.speech.data import UTTERANCE
from studies.speech.training import CHARACTERS

Tensor = Any
_POOLS = ((2, 2), (2, 2), (1, 2), (1, 2), (1, 2))


class MaxPooling2D(keras.layers.Layer):  # type: ignore[misc]
    """The largest of blocks of 1 or 2 rows and 1 or 2 columns, which trains on a device."""

    def __init__(self, pool_size: tuple[int, int], **options: object) -> None:
        super().__init__(**options)
        self.pool_size = pool_size

    def call(self, inputs: Tensor) -> Tensor:
        """Map [n, rows, columns, channels] to as many rows and columns as there are whole blocks.

        Columns come first, so that of equal values the first one gets the gradient, row by row, as in TensorFlow.
        """
        _, rows, columns, channels = inputs.shape
        if self.pool_size[1] == 2:
            pairs = max_pool_pairs(tf.reshape(inputs, [-1, columns, channels]))
            columns //= 2
            inputs = tf.reshape(pairs, [-1, rows, columns, channels])
        if self.pool_size[0] == 2:
            pairs = max_pool_pairs(tf.reshape(inputs, [-1, rows, columns * channels]))
            inputs = tf.reshape(pairs, [-1, rows // 2, columns, channels])
        return inputs


def _convolutions(source: ModuleType, x: Tensor, share: Share, sizes: tuple[int, ...], units: int) -> Tensor:
    """Xu et al. 2025, table 1: convolutions and max-pooling, then a dense layer a step, [n, frames / 4, units]."""
    # The first two pools halve the time. The published network halves it a third time: the Mandarin syllables that it
    # writes come at five a second, English letters at up to fifteen.
    pooling = keras.layers.MaxPooling2D if source is keras.layers else MaxPooling2D
    x = source.Reshape((*x.shape[1:], 1), name="channel")(x)
    for number, (filters, size) in enumerate(zip(sizes, _POOLS, strict=True), start=1):
        x = source.Conv2D(share(filters), 3, padding="same", use_bias=False, name=f"conv{number}")(x)
        rows, columns = (min(length, places) for length, places in zip(size, x.shape[1:3], strict=True))
        if rows * columns > 1:  # a small input is used up before the last layer
            x = pooling((rows, columns), name=f"pool{number}")(x)
        # Behind the pool there is half or a quarter of the activations to normalise.
        x = source.GroupNormalization(groups=1, name=f"norm{number}")(x)
        x = source.ReLU(name=f"relu{number}")(x)
    x = source.Reshape((x.shape[1], x.shape[2] * x.shape[3]), name="steps")(x)
    return source.Dense(share(units), activation="relu", name="dense")(x)


def specification(
    width: float, batch: int, settings: LogMelSettings = UTTERANCE, characters: str = CHARACTERS
) -> Specification:
    """Return what to build: an output for the blank, and one for each character."""
    return Specification(
        "dcnn_ctc",
        settings,
        Normalisation.default(preset("log_mel")),  # the same windows
        1 + len(characters),
        batch,
        width,
        design=Design(_convolutions, ((32, 64, 128, 128, 128), 128)),
    )


if __name__ == "__main__":
    write_durably(Path(sys.argv[1]), build_bundle(specification(float(sys.argv[2]), int(sys.argv[3]))), 0o644)
