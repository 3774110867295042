"""Finds the network of Google's speech embedding in the package `pyopen-wakeword` and reads its weights.

Both are under the Apache License 2.0. The package's wake-word models are under other licences and are not touched.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FrozenNetwork, SpeechEmbeddingSettings
from model_export.errors import ExportError
from model_export.graph_operators import convolutions

NAME = "speech_embedding"
COLUMNS = 13
"""Columns that are averaged: so many that a word may lie anywhere in its second."""
NUMBERS = 96
ATTRIBUTION = (
    "Speech embedding: Lin, Kilgour, Roblek, Sharifi, Google, 2020 (arXiv:2002.01322), Apache License 2.0, as "
    "embedding_model.tflite of pyopen-wakeword 1.1.0, Apache License 2.0; rewritten as a streaming graph"
)
_PACKAGE, _VERSION = "pyopen_wakeword", "1.1.0"
_FILE = "embedding_model.tflite"
_SHA256 = "c0aea21eb84a4ce90a08c870da41b7a7173b45269e6a3207c71d67c40f3a59d8"


@dataclass(frozen=True)
class Convolution:
    """Weights of a convolution."""

    kernel: Floats  # float32 [frames, bands, inputs, outputs]
    bias: Floats  # float32 [outputs]


def settings(network: FrozenNetwork) -> SpeechEmbeddingSettings:
    """Return the settings of features that a streaming graph computes."""
    return SpeechEmbeddingSettings(NAME, 16_000, 1.0, 0.775, 0.08, frames=COLUMNS, numbers=NUMBERS, network=network)


def find_models() -> Path:
    """Return the folder of the package's models. Raises ExportError: the package is missing."""
    found = importlib.util.find_spec(_PACKAGE)  # does not import it: it loads a library of its own
    if found is None or not found.submodule_search_locations:
        raise ExportError(
            f"the features {NAME!r} come from the package pyopen-wakeword, which is missing: "
            "pip install 'auricle[speech]'"
        )
    return Path(found.submodule_search_locations[0]) / "models"


def read_convolutions() -> list[Convolution]:
    """Return the network's convolutions, the input's first.

    Raises ExportError: the package is missing, or its file is not the one that is known.
    """
    path = find_models() / _FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExportError(f"{path} cannot be read ({error}); {_advice()}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != _SHA256:
        raise ExportError(f"{path} has the SHA-256 digest {digest}, but {_SHA256} is the network known; {_advice()}")
    return [Convolution(np.ascontiguousarray(kernel), bias) for kernel, bias in convolutions(data)]


def _advice() -> str:
    return f"install the release that is known: pip install --force-reinstall pyopen-wakeword=={_VERSION}"
