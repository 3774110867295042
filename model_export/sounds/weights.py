"""The weights of EfficientAT mn04, batch normalisation folded in, and the projection of its 384 numbers.

Schmid, Koutini, Widmer 2023, arXiv:2211.04772: a MobileNetV3-Large (Howard et al. 2019) with 0.4 times as many
channels. MIT licence, Copyright (c) 2022 Florian Schmid. The names are those of the PyTorch model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import Scatter
from fleet_protocol.numbers.tensors import Arrays, digest
from model_export.errors import ExportError

ATTRIBUTION = (
    "EfficientAT mn04_as: Schmid, Koutini, Widmer 2023 (arXiv:2211.04772), MIT License, Copyright (c) 2022 Florian "
    "Schmid; trained on AudioSet; batch normalisation folded, weights rounded to float16"
)
SHA256 = "44657b7876cefb20e4f63f76fea62504cd0e3226b9fd51a1ccf421f7f5d0349c"
STEM, LAST = "features.0", "features.16"
STRIDES = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1)
"""Strides of the inverted residuals' depthwise convolutions; their names are `features.1` to `features.15`."""
HARD_SWISH_FROM = 7
"""Number of the first inverted residual whose activations are hard-swish; ReLU before it."""
_EPSILON = 1e-3


@dataclass(frozen=True)
class Convolution:
    """A convolution."""

    kernel: Floats  # float32 [frames, bands, inputs, outputs]; of a depthwise one [frames, bands, channels, 1]
    bias: Floats  # float32 [outputs]

    def rounded(self) -> Convolution:
        """Return it with the weights that float16 can hold."""
        return Convolution(*(array.astype(np.float16).astype(np.float32) for array in (self.kernel, self.bias)))


def read(path: Path) -> Arrays:
    """Return the arrays of the weights' file by PyTorch's names. Raises ExportError: it is not the file known."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExportError(f"{path} cannot be read ({error}); --weights takes EfficientAT's mn04 weights") from error
    if digest(data) != SHA256:
        raise ExportError(f"{path} has the SHA-256 digest {digest(data)}, but {SHA256} are the mn04 weights known")
    arrays: Arrays = load(data)
    return arrays


def fold(arrays: Mapping[str, Floats]) -> dict[str, Convolution]:
    """Return every convolution by its name, with batch normalisation in its weights (Jacob et al. 2018, section 3.2).

    With the moving mean m, variance v, scale g and offset b of a filter w: w' = w g / sqrt(v + e), b' = b - m w'/w.
    The products of squeeze and excitation are convolutions of one place.
    """
    found = {}
    for name, array in arrays.items():
        if name.endswith(".0.weight") and array.ndim == 4:
            normalisation = name.removesuffix("0.weight") + "1."
            scale, offset, mean, variance = (
                arrays[normalisation + part] for part in ("weight", "bias", "running_mean", "running_var")
            )
            factor = scale / np.sqrt(variance + np.float32(_EPSILON))
            depthwise = array.shape[1] == 1 and name != f"{STEM}.0.weight"
            # From PyTorch's [outputs, inputs, bands, frames].
            kernel = (array * factor[:, None, None, None]).transpose((3, 2, 0, 1) if depthwise else (3, 2, 1, 0))
            found[name.removesuffix(".0.weight")] = Convolution(np.ascontiguousarray(kernel), offset - mean * factor)
        elif name.endswith((".fc1.weight", ".fc2.weight")):
            bias = arrays[name.removesuffix("weight") + "bias"]
            found[name.removesuffix(".weight")] = Convolution(np.ascontiguousarray(array.T[None, None]), bias)
    return found


def count(convolutions: Mapping[str, Convolution]) -> int:
    """Return the number of weights."""
    return sum(layer.kernel.size + layer.bias.size for layer in convolutions.values())


@dataclass(frozen=True)
class Classifier:
    """AudioSet's classifier behind the embedding: hard-swish of the first product, logits by the second."""

    first: Floats  # kernel float32 [384, 512]
    first_bias: Floats  # float32 [512]
    second: Floats  # kernel float32 [512, 527]
    second_bias: Floats  # float32 [527]

    @classmethod
    def of(cls, arrays: Mapping[str, Floats]) -> Classifier:
        """Take it from the weights' file."""
        return cls(
            arrays["classifier.2.weight"].T,
            arrays["classifier.2.bias"],
            arrays["classifier.5.weight"].T,
            arrays["classifier.5.bias"],
        )

    def logits(self, embeddings: Floats) -> Floats:
        """Return the logits of all classes, [windows, 527], of embeddings, [windows, 384]."""
        return self.from_hidden(embeddings @ self.first + self.first_bias)

    def from_hidden(self, x: Floats) -> Floats:
        """Return them from what the hidden layer is before its hard-swish, [windows, 512]."""
        found: Floats = (x * np.clip(x + 3, 0, 6) / 6) @ self.second + self.second_bias
        return found


@dataclass(frozen=True)
class Projection:
    """Embedding = numbers @ matrix + offset."""

    matrix: Floats  # float32 [384, numbers]
    offset: Floats  # float32 [numbers]


def project(embeddings: Floats, scatter: Scatter, classifier: Classifier, numbers: int) -> Projection:
    """Return the projection to so many numbers; sounds of one class scatter by about 1 in each of them.

    After whitening by the scatter within a class, the directions are kept along which the logits of AudioSet's 527
    classes differ most: what the network learned says which directions matter, and only the scatter is measured.
    The classifier is linearised around the embeddings, of all kinds of sounds, float32 [clips, 384].
    """
    hidden = embeddings @ classifier.first + classifier.first_bias
    slopes = hard_swish_slope(hidden).mean(axis=0, dtype=np.float64)
    logits = (classifier.first * slopes) @ classifier.second  # by which an embedding changes them, [384, 527]
    whitening = scatter.whitening
    gradients = np.linalg.solve(whitening, logits)  # in the whitened space
    gradients -= gradients.mean(axis=1, keepdims=True)
    gradients /= np.linalg.norm(gradients, axis=0)
    directions = np.linalg.svd(gradients, full_matrices=False)[0][:, :numbers]
    matrix = (whitening @ directions).astype(np.float16)  # as the graph holds it
    offset = -embeddings.mean(axis=0, dtype=np.float64) @ matrix
    return Projection(matrix.astype(np.float32), offset.astype(np.float16).astype(np.float32))


def hard_swish_slope(x: Floats) -> Doubles:
    """Return the derivative of hard-swish."""
    return np.asarray(np.where(x < -3, 0.0, np.where(x > 3, 1.0, (2 * x + 3) / 6)), np.float64)
