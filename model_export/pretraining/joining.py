"""Sets the network of another file beside one that was trained: one graph, whose embedding is both embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fleet_protocol.errors import TensorError
from fleet_protocol.numbers.arrays import Array, Floats
from fleet_protocol.numbers.tensors import require
from model_export.errors import ExportError
from model_export.graph_operators import read_convolutions
from model_export.pretraining import front_end_file
from model_export.pretraining.network import DESIGNS, SIGNATURE, Design


@dataclass(frozen=True)
class First:
    """The network that comes first."""

    design: Design
    weights: dict[str, tuple[Array, Array]]  # kernel and bias of its convolutions, normalisation folded
    head: dict[str, Floats]  # its classifier
    description: dict[str, Any]  # its network and its training

    def with_head(self, head: dict[str, Floats]) -> dict[str, Floats]:
        """Return the classifier of both embeddings: the mean of both classifiers' logits, for the second's shares."""
        name = "head/shares"
        priors = np.log(head[name] / self.head[name])
        kernels, biases = ([own[f"head/{part}"] for own in (self.head, head)] for part in ("kernel", "bias"))
        return {"head/kernel": np.concatenate(kernels) / 2, "head/bias": (sum(biases) + priors) / 2, name: head[name]}


def read_first(path: Path, bands: int, words: tuple[str, ...]) -> First:
    """Read a file of one network, of at most so many bands, that was trained on the same words.

    Raises ExportError: it is none.
    """
    file = front_end_file.read(path)
    network, training = file.description.get("network"), file.description.get("training")
    size = network.get("size") if isinstance(network, dict) else None
    design = DESIGNS.get(size) if isinstance(size, str) else None
    weights = read_convolutions(file.float32, SIGNATURE)
    layers = design.convolutions if design else {}
    expected = [(layer.shape, (layer.filters,)) for layer in layers.values()]
    if not design or training is None or [(kernel.shape, bias.shape) for kernel, bias in weights] != expected:
        raise ExportError(
            f"--beside {path} must be one network of `auricle-export pretrain`, and is of size {size!r} with "
            f"{len(weights)} convolutions; train one, for example with --size words"
        )
    if design.bands > bands:
        raise ExportError(f"--beside {path} hears {design.bands} bands, and --size {bands}; train the other way round")
    if file.words != words:
        differing = sorted(set(file.words) ^ set(words))
        raise ExportError(
            f"--beside {path} was trained on other words than --data has ({', '.join(differing[:5])}); "
            "train both on the same"
        )
    outputs = len(words) + 1
    shapes = {"head/kernel": (None, outputs), "head/bias": (outputs,), "head/shares": (outputs,)}
    try:
        head = {name: require(file.statistics, name, shape) for name, shape in shapes.items()}
    except TensorError as error:
        raise ExportError(f"--beside {path} has no classifier of its words: {error}; train it again") from error
    described = {"network": network, "training": training}
    return First(design, dict(zip(layers, weights, strict=True)), head, described)
