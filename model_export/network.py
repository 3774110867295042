"""Builds a network of the zoo: normalised features [n, frames, numbers per frame] to logits [n, capacity].

The logits of networks that transcribe are [n, steps, capacity].
"""

from __future__ import annotations

import keras
import numpy as np

from fleet_protocol.feature_settings import JointSettings
from model_export.layers import device_layers
from model_export.specification import Specification
from model_export.trainable import weight_name
from model_export.zoo import ARCHITECTURES


def build(specification: Specification, *, stock: bool = False) -> keras.Model:
    """Build a network with seeded weights (Glorot uniform; biases zero; recurrent ones orthogonal), or pretrained ones.

    A head on a joint front end begins at zero.

    Its last layer is the head.

    Args:
        stock: use Keras's own layers instead of those that train on a device; both take the same weights.
    """
    keras.utils.set_random_seed(specification.seed)
    source = keras.layers if stock else device_layers
    x = keras.Input(specification.settings.shape)
    pretrained = specification.pretrained
    features = pretrained.connect(source, x) if pretrained else x
    options = {"activation": specification.activation, "downsampling": specification.downsampling}
    embedding = ARCHITECTURES[specification.architecture].connect(source, features, specification.width, **options)
    logits = source.Dense(specification.outputs, name="head")(embedding)
    model = keras.Model(x, logits, name=specification.architecture)
    given = pretrained.weights if pretrained else {}
    for variable in model.trainable_variables:
        if weight_name(variable) in given:
            variable.assign(given[weight_name(variable)])
    if isinstance(specification.settings, JointSettings):
        # What no training moves, as a word's weights of the numbers for sounds, must not speak.
        kernel = model.trainable_variables[-2]
        kernel.assign(np.zeros(kernel.shape, np.float32))
    return model
