"""A front end's network in two parts: what stays frozen, and what goes on training with a head.

The frozen part is the front end of the bundle, the other part begins the bundle's own network: so only weights that
train are in the bundle, travel and are aggregated.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import ModuleType

import keras
import numpy as np

from fleet_protocol.feature_settings import EmbeddingSettings, FeatureSettings, FrozenNetwork
from fleet_protocol.tensors import Arrays
from model_export.errors import ExportError
from model_export.flatbuffer import convolutions
from model_export.layers.feed_forward import Reshape
from model_export.layers.operators import Tensor
from model_export.pretraining import conversion
from model_export.pretraining.front_end_file import FrontEndFile
from model_export.pretraining.network import DESIGNS, Design, build, connect
from model_export.pretraining.pictures import BANDS, FRAMES

_TOLERANCE = 1e-4  # of embeddings, whose values are around 1
_CLIPS = 4


@dataclass(frozen=True)
class PretrainedLayers:
    """The last stages of a front end's network: what :class:`model_export.specification.Pretrained` describes.

    Attributes:
        trains: what of the network trains, for the manifest.
        weights: their weights, by the names that a bundle gives them.
        design: the network.
        start: its first stage that trains.
    """

    trains: str
    weights: Arrays
    design: Design
    start: int

    def connect(self, source: ModuleType, x: Tensor) -> Tensor:
        """Map features [n, frames, numbers per frame] to embeddings [n, 1, numbers]."""
        return Reshape((1, self.design.embedding))(connect(source, x, self.design, self.start))


def divide(file: FrontEndFile, settings: EmbeddingSettings, trains: str) -> tuple[FeatureSettings, PretrainedLayers]:
    """Divide a file's network into the front end that stays frozen and the layers that train.

    Args:
        file: of the front end.
        settings: of its embeddings.
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
        network=FrozenNetwork.of(conversion.float32_graph(frozen)),
    )
    return cut, PretrainedLayers(trains, _weights(training), design, start)


def restore(file: FrontEndFile) -> tuple[keras.Model, Design]:
    """Build a file's network anew, with the weights of its float32 graph.

    Raises:
        ExportError: it is not of a size that this program builds, or it does not compute what the graph does.
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
    error = np.abs(conversion.run(file.float32, pictures) - np.asarray(network(pictures))).max()
    if left or error > _TOLERANCE:
        raise ExportError(f"this front end's graph is not the {size!r} network: {error:.1g} apart; make it again")
    return network, DESIGNS[size]


def _weights(layers: list[keras.Layer]) -> Arrays:
    return {
        f"{layer.name}/{kind}": array
        for layer in layers
        for kind, array in zip(("kernel", "bias"), layer.get_weights(), strict=False)
    }
