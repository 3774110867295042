"""Compares the device's layers with Keras's own of the same name; prints one JSON object of differences.

Run as `python -m tests.support.layer_checks`, in a process of its own because it loads TensorFlow.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from model_export.layers import device_layers as layers

RECURRENT = ({}, {"return_sequences": True}, {"go_backwards": True})
CASES = {
    "dense": ("Dense", {"units": 5, "activation": "relu"}, (6,)),
    "dense linear": ("Dense", {"units": 5}, (6,)),
    "dense softmax": ("Dense", {"units": 5, "activation": "softmax"}, (6,)),
    **{
        f"conv {kernel} stride {strides} {padding} {activation} {shape}": (
            "Conv2D",
            {"filters": 4, "kernel_size": kernel, "strides": strides, "padding": padding, "activation": activation},
            shape,
        )
        for kernel, strides in ((1, 1), (3, 1), (3, 2), (5, 2), (4, 3))
        for padding in ("same", "valid")
        for activation in ("relu", "softmax")
        for shape in ((10, 7, 3), (9, 8, 1))
    },
    **{
        f"separable {kernel} {padding}": (
            "SeparableConv2D",
            {"filters": 4, "kernel_size": kernel, "padding": padding, "activation": "relu"},
            (9, 8, 3),
        )
        for kernel in (3, 5)
        for padding in ("same", "valid")
    },
    **{
        f"pool {size}": ("AveragePooling2D", {"pool_size": size}, (7, 5, 3))
        for size in ((2, 2), (3, 1), (1, 2), (7, 5))
    },
    **{
        f"conv over time {padding} {activation}": (
            "Conv1D",
            {"filters": 4, "kernel_size": 3, "padding": padding, "activation": activation},
            (9, 5),
        )
        for padding in ("same", "valid")
        for activation in ("relu", "softmax")
    },
    **{
        f"conv {kernel} dilation {dilation} bias {use_bias} {shape}": (
            "Conv2D",
            {
                "filters": 4,
                "kernel_size": kernel,
                "strides": 1 + (dilation == 1),
                "padding": "same",
                "dilation_rate": dilation,
                "use_bias": use_bias,
                "activation": "relu",
            },
            shape,
        )
        for kernel in ((5, 1), (10, 4), (3, 3))
        for dilation in (1, 2, 4)
        for use_bias in (True, False)
        for shape in ((10, 7, 3),)
    },
    **{
        f"depthwise {padding}": (
            "DepthwiseConv2D",
            {"kernel_size": 3, "padding": padding, "use_bias": False},
            (9, 8, 3),
        )
        for padding in ("same", "valid")
    },
    "depthwise in parts": ("DepthwiseConv2D", {"kernel_size": 3, "padding": "same", "use_bias": False}, (3, 2, 2000)),
    "mean of all": ("GlobalAveragePooling2D", {}, (5, 4, 3)),
    "relu": ("ReLU", {}, (5, 4)),
    "clip normalised": ("GroupNormalization", {"groups": 1}, (5, 4, 3)),
    "clip normalised, unscaled": ("GroupNormalization", {"groups": 1, "center": False, "scale": False}, (5, 4, 3)),
    "step normalised": ("LayerNormalization", {}, (5, 4)),
    "cut": ("Cropping1D", {"cropping": (2, 3)}, (7, 3)),
    **{f"max-pool {steps}": ("MaxPooling1D", {}, (steps, 3)) for steps in (2, 6, 7)},
    **{f"max-pool {size}": ("MaxPooling2D", {"pool_size": size}, (7, 5, 3)) for size in ((2, 2), (1, 2), (2, 1))},
    "dense at every step": ("Dense", {"units": 5, "activation": "relu"}, (4, 6)),
    **{f"gru {options}": ("GRU", {"units": 4, **options}, (7, 3)) for options in RECURRENT},
    "flatten": ("Flatten", {}, (3, 4, 2)),
    "reshape": ("Reshape", {"target_shape": (4, 6)}, (3, 8)),
}


def gradients(layer, x, weighting):
    """Output, and the gradients of its weighted sum with respect to input and weights."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        total = tf.reduce_sum(y * weighting)
    return [y, *tape.gradient(total, [x, *[w.value for w in layer.trainable_variables]])]


def difference(kind, options, shape):
    """Largest difference between the device's layer, rebuilt from its configuration, and the stock one."""
    ours = getattr(layers, kind).from_config(getattr(layers, kind)(**options).get_config())
    return largest(ours, getattr(keras.layers, kind)(**options), shape)


def attention_difference(places):
    """The same for attention, whose stock layer gives its weights an axis for the heads."""

    def attend(source):
        inputs = keras.Input((5, 6))
        query = source.Cropping1D((1, 4 - places))(inputs)
        return keras.Model(inputs, source.MultiHeadAttention(2, 3, use_bias=False)(query, inputs))

    return largest(attend(layers), attend(keras.layers), (5, 6))


def both_directions(source, return_sequences):
    return source.Bidirectional(source.GRU(4, return_sequences=return_sequences))


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
    model = keras.Sequential(
        [
            keras.Input((8, 6)),
            source.Reshape((8, 6, 1)),
            source.Conv2D(4, 3, padding="same", activation="relu"),
            source.SeparableConv2D(6, 3, padding="valid", activation="relu"),
            source.AveragePooling2D((2, 2)),
            source.Flatten(),
            source.Dense(3),
        ]
    )
    generator = np.random.default_rng(6)
    model.set_weights([generator.normal(size=weight.shape) * 0.3 for weight in model.weights])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss)
    model.fit(generator.normal(size=(50, 8, 6)), generator.integers(0, 3, 50), 16, epochs=3, verbose=0, shuffle=False)
    return model.get_weights()


if __name__ == "__main__":
    result = {name: difference(*case) for name, case in CASES.items()}
    for every_step in (False, True):
        ours, stock = (both_directions(source, every_step) for source in (layers, keras.layers))
        result[f"both directions {every_step}"] = largest(ours, stock, (7, 3))
    result |= {f"attention {places}": attention_difference(places) for places in (1, 3)}
    fits = zip(fitted(layers), fitted(keras.layers), strict=True)
    result["fit"] = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in fits)
    print(json.dumps(result))
