"""A front end's network as TensorFlow Lite graphs, and in two parts: what stays frozen, and what trains with a head.

Graphs are float32, or int8 with float32 input and output. The frozen part is the front end of the bundle, the other
part begins the bundle's own network: so only weights that train are in the bundle, travel and are aggregated.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import EmbeddingSettings, FeatureSettings, FrozenNetwork
from fleet_protocol.tensors import Arrays
from model_export.bundle import convert_module
from model_export.errors import ExportError
from model_export.graph_operators import convolutions
from model_export.layers.device_layers import Reshape
from model_export.layers.operators import Tensor
from model_export.pretraining.front_end_file import FrontEndFile
from model_export.pretraining.network import DESIGNS, Design, build, connect
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


_TOLERANCE = 1e-4  # of embeddings, whose values are around 1
_CLIPS = 4


@dataclass(frozen=True)
class PretrainedLayers:
    """The last stages of a front end's network: what :class:`model_export.specification.Pretrained` describes."""

    trains: str  # what of the network trains, for the manifest
    weights: Arrays  # their weights, by the names that a bundle gives them
    design: Design  # the network
    start: int  # its first stage that trains

    def connect(self, source: ModuleType, x: Tensor) -> Tensor:
        """Map features [n, frames, numbers per frame] to embeddings [n, 1, numbers]."""
        return Reshape((1, self.design.embedding))(connect(source, x, self.design, self.start))


def divide(file: FrontEndFile, settings: EmbeddingSettings, trains: str) -> tuple[FeatureSettings, PretrainedLayers]:
    """Divide a file's network into the front end that stays frozen and the layers that train.

    Args:
        trains: ``last_block``; or ``all``, and the front end is log-mel features alone.

    Raises:
        ExportError: the file's network is not of a size that this program builds.
    """
    network, design = restore(file)
    if trains == "all":
        return settings.log_mel, PretrainedLayers(trains, _weights(network.layers), design, 0)
    start = design.stages - 1
    ahead = network.get_layer(f"block{start}a").input
    frozen = keras.Model(network.input, Reshape((ahead.shape[1], ahead.shape[3]))(ahead))
    training = [layer for layer in network.layers if layer not in frozen.layers]
    cut = dataclasses.replace(
        settings,
        preset=f"{settings.preset} without its last block",
        numbers=ahead.shape[3],
        network_frames=ahead.shape[1],
        network=FrozenNetwork.of(float32_graph(frozen)),
    )
    return cut, PretrainedLayers(trains, _weights(training), design, start)


def restore(file: FrontEndFile) -> tuple[keras.Model, Design]:
    """Build a file's network anew, with the weights of its float32 graph.

    Raises ExportError: it is not of a size that this program builds, or it does not compute what the graph does.
    """
    size = file.description["network"]["size"]
    if size not in DESIGNS:
        raise ExportError(f"this front end's network is of the size {size!r}; known: {', '.join(DESIGNS)}")
    network, left = build(DESIGNS[size], folded=True), convolutions(file.float32)
    for layer in network.layers:
        if isinstance(layer, keras.layers.Conv2D):
            # Convolutions of equal shape follow one another in the graph as they do in the network.
            found = next((i for i, (kernel, _) in enumerate(left) if kernel.shape == layer.kernel.shape), None)
            if found is None:
                raise ExportError(
                    f"this front end's graph has no convolution {tuple(layer.kernel.shape)}; make it again"
                )
            layer.set_weights(left.pop(found))
    pictures = np.random.default_rng(0).normal(size=(_CLIPS, FRAMES, BANDS)).astype(np.float32)
    error = np.abs(run(file.float32, pictures) - np.asarray(network(pictures))).max()
    if left or error > _TOLERANCE:
        raise ExportError(f"this front end's graph is not the {size!r} network: {error:.1g} apart; make it again")
    return network, DESIGNS[size]


def _weights(layers: list[keras.Layer]) -> Arrays:
    return {
        f"{layer.name}/{kind}": array
        for layer in layers
        for kind, array in zip(("kernel", "bias"), layer.get_weights(), strict=False)
    }
