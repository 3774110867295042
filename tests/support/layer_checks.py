"""Compares the device's layers with Keras's own of the same name, and counts the weights of published networks.

Prints both as one JSON object.

Run as `python -m tests.support.layer_checks`, in a process of its own because it loads TensorFlow.
"""

import json
from itertools import product

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.bundle.feature_settings import preset
from model_export.bundle import build_network
from model_export.feature_statistics import Normalisation
from model_export.layers import device_layers as layers
from model_export.specification import Specification
from studies.speech.network import MaxPooling2D

PADDINGS = ("same", "valid")


def cases():
    """Every layer's name with the shape of a sample and options."""
    for activation in ("relu", "linear"):
        yield "Dense", (6,), {"units": 5, "activation": activation}
    yield "Dense", (4, 6), {"units": 5, "activation": "relu"}  # at every step
    for (kernel, strides), padding in product(((1, 1), (3, 1), (3, 2), (5, 2), (4, 3)), PADDINGS):
        for shape in ((10, 7, 3), (9, 8, 1)):
            options = {"filters": 4, "kernel_size": kernel, "padding": padding, "activation": "relu"}
            yield "Conv2D", shape, options | {"strides": strides}
    for kernel, dilation, bias in product(((5, 1), (10, 4), (3, 3)), (1, 2, 4), (True, False)):
        options = {"filters": 4, "kernel_size": kernel, "padding": "same", "activation": "relu", "use_bias": bias}
        yield "Conv2D", (10, 7, 3), options | {"strides": 1 + (dilation == 1), "dilation_rate": dilation}
    for padding in PADDINGS:
        for kernel in (3, 5):
            options = {"filters": 4, "kernel_size": kernel, "padding": padding, "activation": "relu"}
            yield "SeparableConv2D", (9, 8, 3), options
        yield "Conv1D", (9, 5), {"filters": 4, "kernel_size": 3, "padding": padding, "activation": "relu"}
        yield "DepthwiseConv2D", (9, 8, 3), {"kernel_size": 3, "padding": padding, "use_bias": False}
    yield "DepthwiseConv2D", (3, 2, 2000), {"kernel_size": 3, "padding": "same", "use_bias": False}  # in parts
    yield "AveragePooling2D", (7, 5, 3), {"pool_size": (7, 1)}
    for size in ((2, 2), (1, 2), (2, 1)):
        yield "MaxPooling2D", (7, 5, 3), {"pool_size": size}
    for steps in (2, 6, 7):
        yield "MaxPooling1D", (steps, 3), {}
    for options in ({}, {"return_sequences": True}, {"go_backwards": True}):
        yield "GRU", (7, 3), {"units": 4, **options}
    yield "GroupNormalization", (5, 4, 3), {"groups": 1}
    yield "GroupNormalization", (5, 4, 3), {"groups": 1, "center": False, "scale": False}
    yield "LayerNormalization", (5, 4), {}
    yield "GlobalAveragePooling2D", (5, 4, 3), {}
    yield "ReLU", (5, 4), {}
    yield "Cropping1D", (7, 3), {"cropping": (2, 3)}
    yield "Flatten", (3, 4, 2), {}
    yield "Reshape", (3, 8), {"target_shape": (4, 6)}


def gradients(layer, x, weighting):
    """Output, and the gradients of its weighted sum with respect to input and weights."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        total = tf.reduce_sum(y * weighting)
    return [y, *tape.gradient(total, [x, *[w.value for w in layer.trainable_variables]])]


def difference(kind, shape, options):
    """Largest difference between the device's layer, rebuilt from its configuration, and the stock one."""
    ours = {**vars(layers), "MaxPooling2D": MaxPooling2D}[kind](**options)
    ours = type(ours).from_config(ours.get_config())
    return largest(ours, getattr(keras.layers, kind)(**options), shape)


def attention_difference(places):
    """The same for attention, whose stock layer gives its weights an axis for the heads."""

    def attend(source):
        inputs = keras.Input((5, 6))
        query = source.Cropping1D((1, 4 - places))(inputs)
        return keras.Model(inputs, source.MultiHeadAttention(2, 3, use_bias=False)(query, inputs))

    return largest(attend(layers), attend(keras.layers), (5, 6))


def largest(ours, stock, shape):
    """Largest difference between two layers in output and gradients, on inputs with many equal values."""
    generator = np.random.default_rng(3)
    x = tf.constant(generator.normal(size=(6, *shape)).round(1), tf.float32)
    size = stock(x).shape
    ours(x)
    for weight, other in zip(ours.weights, stock.weights, strict=True):
        weight.assign(generator.normal(size=weight.shape))
        other.assign(tf.reshape(weight, other.shape))
    weighting = tf.constant(generator.normal(size=size), tf.float32)
    pairs = zip(gradients(ours, x, weighting), gradients(stock, x, weighting), strict=True)
    return max(float(tf.reduce_max(tf.abs(tf.reshape(a, b.shape) - b)) / tf.reduce_max(tf.abs(b))) for a, b in pairs)


def fitted(source):
    """Weights after `fit`, with a last batch that is not full."""
    keras.utils.set_random_seed(5)
    stack = [keras.Input((8, 6)), source.Reshape((8, 6, 1))]
    stack += [source.Conv2D(4, 3, padding="same", activation="relu")]
    stack += [source.SeparableConv2D(6, 3, padding="valid", activation="relu")]
    model = keras.Sequential([*stack, source.AveragePooling2D((6, 1)), source.Flatten(), source.Dense(3)])
    generator = np.random.default_rng(6)
    model.set_weights([generator.normal(size=weight.shape) * 0.3 for weight in model.weights])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss)
    model.fit(generator.normal(size=(50, 8, 6)), generator.integers(0, 3, 50), 16, epochs=3, verbose=0, shuffle=False)
    return model.get_weights()


def published_sizes():
    """How many weights the networks that FedKWS-UI compares have, by name and number of classes."""
    settings = preset("kws40")
    normalisation, names = Normalisation.default(settings), ("dscnn_172", "mhattrnn", "resnet15", "transformer")
    return {
        f"{name} {classes}": build_network(Specification(name, settings, normalisation, classes)).count_params()
        for name in names
        for classes in (12, 35)
    }


if __name__ == "__main__":
    result = {str(case): difference(*case) for case in cases()}
    for every_step in (False, True):
        both = (source.Bidirectional(source.GRU(4, return_sequences=every_step)) for source in (layers, keras.layers))
        result[f"both directions {every_step}"] = largest(*both, (7, 3))
    result |= {f"attention {places}": attention_difference(places) for places in (1, 3)}
    fits = zip(fitted(layers), fitted(keras.layers), strict=True)
    result["fit"] = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in fits)
    print(json.dumps({"differences": result, "weights": published_sizes()}))
