"""A front end's network as TensorFlow Lite graphs: float32, or int8 with float32 input and output."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.arrays import Floats
from model_export.bundle import convert_module
from model_export.errors import ExportError
from model_export.layers.operators import Tensor
from model_export.pretraining.network import Design
from model_export.pretraining.pictures import BANDS, FRAMES

SIGNATURE = "embed"


class _Embedding(tf.Module):  # type: ignore[misc]
    """Normalised pictures [n, 98, 40] to embeddings [n, embedding]."""

    def __init__(self, network: keras.Model) -> None:
        super().__init__()
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
    """Convert a folded network to int8 weights and activations.

    Args:
        pictures: normalised pictures, float32 [clips, 98, 40], from which the activations' ranges are measured.

    Raises:
        OperatorError: it needs an operator that a runtime lacks.
    """
    return convert_module(
        *_signed(_Int8Embedding(folded)), calibration=lambda: ([picture[None]] for picture in pictures)
    )


def _signed(module: _Embedding) -> tuple[_Embedding, dict[str, Any]]:
    spec = tf.TensorSpec((None, FRAMES, BANDS), tf.float32, "log_mel")
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


def require_within(design: Design, multiply_adds: int, weights: int) -> None:
    """Refuse a network that costs more than its design allows. Raises ExportError: it does."""
    if multiply_adds > design.max_multiply_adds or weights > design.max_weights:
        raise ExportError(
            f"the network takes {multiply_adds} multiply-adds and {weights} weights, but its size allows "
            f"{design.max_multiply_adds} and {design.max_weights}; make its layers narrower"
        )
