"""Builds bundles whose front end is a network: untrained, with seeded weights; usage: embedding_bundles.py FOLDER.

Loads TensorFlow, so in a process of its own. ``embedding.auricle`` has a linear head, ``embedding-hidden.auricle`` one
hidden layer; ``front_end.tflite`` is the network alone.
"""

import sys
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.bundle.feature_settings import PRESETS, EmbeddingSettings, FrozenNetwork
from model_export.bundle import build_bundle
from model_export.feature_statistics import Normalisation
from model_export.specification import Specification

NUMBERS = 16


def network() -> bytes:
    keras.utils.set_random_seed(3)
    x = keras.Input((98, 40), batch_size=1)
    y = keras.layers.Reshape((98, 40, 1))(x)
    y = keras.layers.Conv2D(8, 5, strides=(4, 2), activation="relu")(y)
    y = keras.layers.Conv2D(NUMBERS, (3, y.shape[2]), strides=2)(y)  # over all bands: pitch is heard
    model = keras.Model(x, keras.layers.GlobalAveragePooling2D()(y))
    return tf.lite.TFLiteConverter.from_keras_model(model).convert()


def main(folder: Path) -> None:
    data = network()
    (folder / "front_end.tflite").write_bytes(data)
    mel = asdict(PRESETS["log_mel"]) | {"preset": "untrained"}
    settings = EmbeddingSettings(**mel, numbers=NUMBERS, network=FrozenNetwork.of(data))
    scale = Normalisation(tuple(np.zeros(NUMBERS)), tuple(np.full(NUMBERS, 0.1)))
    for name, architecture in (("embedding", "linear"), ("embedding-hidden", "hidden")):
        bundle = build_bundle(Specification(architecture, settings, scale))
        (folder / f"{name}.auricle").write_bytes(bundle)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
