"""Takes of words in a folder of recordings, as a front end embeds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError
from edge_client.features.front_end import open_front_end
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import unpack_statistics
from model_export.front_ends import FoundFrontEnd, find_front_end
from model_export.pretraining.corpus import NOISE, read_features


def open_embedding(name: str, precision: str = "float32") -> tuple[FoundFrontEnd, EmbeddingStatistics]:
    """Return a front end, and the statistics that come with it. Raises BenchmarkError: it is no embedding."""
    front_end = find_front_end(name, precision)
    statistics = unpack_statistics(front_end.statistics)
    if statistics is None:
        raise BenchmarkError(f"{name} is no embedding: it has no statistics by which words are told from few takes")
    return front_end, statistics


@dataclass(frozen=True)
class Takes:
    """Embeddings of takes, float32 [takes, numbers], and who says which word in each."""

    embeddings: Floats
    words: NDArray[np.str_]
    speakers: NDArray[np.str_]
    statistics: EmbeddingStatistics

    @classmethod
    def read(cls, folder: Path, name: str, precision: str = "float32") -> Takes:
        """Compute the embeddings of recordings ``<label>/<speaker>_*`` by a front end, without noise."""
        front_end, statistics = open_embedding(name, precision)
        features, words, speakers = read_features(folder, front_end.settings, open_front_end(front_end.settings))
        spoken = words != NOISE
        rows = features.reshape(len(features), -1)[spoken].astype(np.float32)
        return cls(rows, words[spoken], speakers[spoken], statistics)
