"""A trained network in Keras with its normalisation folded, and as TensorFlow Lite graphs: float32, or int8 inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.numbers.arrays import Array, Floats
from model_export.bundle import convert_module
from model_export.layers.device_layers import Reshape
from model_export.layers.operators import Tensor
from model_export.pretraining.network import EPSILON, SIGNATURE, Design, Weights, connect
from model_export.pretraining.pictures import FRAMES

tf.config.set_visible_devices([], "GPU")  # whose memory JAX has taken


def fold(trained: Weights, design: Design) -> keras.Model:
    """Return a trained network in Keras, [n, frames, bands] to [n, embedding], without batch normalisation.

    It is in the weights instead (Jacob et al. 2018, section 3.2). With the moving mean m, variance v, scale g and
    offset b of a filter w: w' = w g / sqrt(v + e), b' = b - m w'/w. ``trained``: weights and moving statistics.
    """
    weights = {}
    for name, layer in design.convolutions.items():
        parts = ("kernel", "scale", "offset", "mean", "variance")
        kernel, scale, offset, mean, variance = (np.asarray(trained[f"{name}/{part}"]) for part in parts)
        factor = scale / np.sqrt(variance + EPSILON)
        weights[name] = (kernel * factor).reshape(layer.shape), offset - mean * factor
    return build(design, weights)


def build(design: Design, weights: Mapping[str, Sequence[Array]], name: str = "front_end") -> keras.Model:
    """Return a network in Keras from its convolutions' kernels, with normalisation folded, and biases."""

    def convolved(x: Tensor, name: str) -> Tensor:
        layer = design.convolutions[name]
        options = {"strides": layer.strides, "padding": "same", "name": name}
        if layer.depthwise:
            x = keras.layers.DepthwiseConv2D(layer.kernel, **options)(x)
        else:
            x = keras.layers.Conv2D(layer.filters, layer.kernel, **options)(x)
        return keras.layers.ReLU()(x) if layer.rectified else x

    picture = keras.Input((FRAMES, design.bands), name="log_mel")
    x = connect(design, picture, convolved, keras.layers.ReLU(), lambda x, shape: Reshape(shape)(x))
    result = keras.Model(picture, keras.layers.GlobalAveragePooling2D()(x), name=name)
    for layer, arrays in weights.items():
        result.get_layer(layer).set_weights(arrays)
    return result


def side_by_side(first: keras.Model, second: keras.Model) -> keras.Model:
    """Return two networks as one, whose embedding is the first's and the second's; each sees its lowest bands."""
    picture = keras.Input(max(network.input_shape[1:] for network in (first, second)), name="log_mel")
    bands = [network.input_shape[2] for network in (first, second)]
    seen = [picture if count == max(bands) else picture[:, :, :count] for count in bands]
    return keras.Model(picture, keras.layers.Concatenate()([first(seen[0]), second(seen[1])]))


class _Embedding(tf.Module):  # type: ignore[misc]
    """Normalised pictures [n, 98, 40] to embeddings [n, embedding]."""

    def __init__(self, network: keras.Model) -> None:
        super().__init__()
        self.shape = network.input_shape[1:]
        self._network = network
        self._constants = [tf.constant(variable.value) for variable in network.trainable_variables]

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def embed(self, pictures: Tensor) -> dict[str, Tensor]:
        return {"embedding": self._network.stateless_call(self._constants, [], pictures)[0]}


class _Int8Embedding(_Embedding):
    """The same with the mean as a convolution: on ARMv7, MEAN in int8 takes 135 instructions for each number, not 9."""

    def __init__(self, network: keras.Model) -> None:
        super().__init__(keras.Model(network.input, network.layers[-1].input))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def embed(self, pictures: Tensor) -> dict[str, Tensor]:
        x = self._network.stateless_call(self._constants, [], pictures)[0]
        mean = tf.fill((x.shape[1], 1, x.shape[3], 1), 1 / x.shape[1])
        return {"embedding": tf.nn.depthwise_conv2d(x, mean, [1, 1, 1, 1], "VALID")[:, 0, 0]}


def float32_graph(folded: keras.Model, half: bool = False) -> bytes:
    """Convert a folded network: [n, 98, 40] to [n, embedding], float32; ``half``: with weights of float16.

    Raises OperatorError: it needs an operator that a runtime lacks.
    """
    return convert_module(*_signed(_Embedding(folded)), half=half)


def int8_graph(folded: keras.Model, pictures: Floats) -> bytes:
    """Convert a folded network to int8 weights and activations, whose ranges are measured from normalised pictures.

    These are float32 [clips, 98, 40]. Raises OperatorError: it needs an operator that a runtime lacks.
    """
    return convert_module(
        *_signed(_Int8Embedding(folded)), calibration=lambda: ([picture[None]] for picture in pictures)
    )


def _signed(module: _Embedding) -> tuple[_Embedding, dict[str, Any]]:
    spec = tf.TensorSpec((None, *module.shape), tf.float32, "log_mel")
    return module, {SIGNATURE: module.embed.get_concrete_function(spec)}


def run(graph: bytes, pictures: Floats) -> Floats:
    """Return a graph's embeddings of normalised pictures, float32 [clips, embedding], by TensorFlow's interpreter."""
    interpreter = tf.lite.Interpreter(model_content=graph, num_threads=1)
    into, out = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    parts = []
    for start in range(0, len(pictures), 256):
        part = pictures[start : start + 256]
        interpreter.resize_tensor_input(into, part.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(into, part)
        interpreter.invoke()
        parts.append(interpreter.get_tensor(out).copy())
    size = interpreter.get_output_details()[0]["shape"][-1]
    return np.concatenate([np.zeros((0, size), np.float32), *parts])
