"""A trained network in Keras with its normalisation folded, and as TensorFlow Lite graphs: float32, or int8 inside."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.arrays import Floats
from model_export.bundle import convert_module
from model_export.errors import ExportError
from model_export.layers.device_layers import Reshape
from model_export.layers.operators import Tensor
from model_export.pretraining.network import EPSILON, Design, Weights
from model_export.pretraining.pictures import FRAMES

SIGNATURE = "embed"


def fold(trained: Weights, design: Design) -> keras.Model:
    """Return a trained network in Keras, [n, frames, bands] to [n, embedding], without batch normalisation.

    It is in the weights instead (Jacob et al. 2018, section 3.2). With the moving mean m, variance v, scale g and
    offset b of a filter w: w' = w g / sqrt(v + e), b' = b - m w'/w. A design of float16 weights gets those that float16
    can hold. ``trained``: weights and moving statistics.
    """
    result = _build(design)
    for name in design.convolutions:
        parts = ("kernel", "scale", "offset", "mean", "variance")
        kernel, scale, offset, mean, variance = (np.asarray(trained[f"{name}/{part}"]) for part in parts)
        factor = scale / np.sqrt(variance + EPSILON)
        folded = [kernel * factor, offset - mean * factor]
        result.get_layer(name).set_weights([w.astype(np.float16) for w in folded] if design.half else folded)
    return result


def _build(design: Design) -> keras.Model:
    """Build the network of :func:`model_export.pretraining.network.embed` with biases in place of normalisation."""

    def convolved(x: Tensor, name: str) -> Tensor:
        layer = design.convolutions[name]
        x = keras.layers.Conv2D(layer.filters, layer.kernel, strides=layer.strides, padding="same", name=name)(x)
        return keras.layers.ReLU()(x) if layer.rectified else x

    picture = keras.Input((FRAMES, design.bands), name="log_mel")
    x = convolved(convolved(Reshape((FRAMES, design.bands, 1))(picture), "stem1"), "stem2")
    x = convolved(Reshape((x.shape[1], 1, x.shape[2] * x.shape[3]))(x), "narrow")
    for name, _ in design.named_blocks:
        y = convolved(convolved(x, f"{name}a"), f"{name}b")
        x = keras.layers.ReLU()(keras.layers.Add()([y, convolved(x, f"{name}c")]))
    return keras.Model(picture, keras.layers.GlobalAveragePooling2D()(x), name="front_end")


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
    return np.concatenate(parts)


def embed(network: keras.Model, pictures: Floats) -> Floats:
    """Return the embeddings of normalised pictures, float32 [clips, embedding]."""
    parts = [np.asarray(network(pictures[i : i + 512], training=False)) for i in range(0, len(pictures), 512)]
    return np.concatenate([np.zeros((0, network.output_shape[-1]), np.float32), *parts])


def require_within(design: Design, multiply_adds: int, weights: int) -> None:
    """Refuse a network that costs more than its design allows. Raises ExportError: it does."""
    if multiply_adds > design.max_multiply_adds or weights > design.max_weights:
        raise ExportError(
            f"the network takes {multiply_adds} multiply-adds and {weights} weights, but its size allows "
            f"{design.max_multiply_adds} and {design.max_weights}; make its layers narrower"
        )
