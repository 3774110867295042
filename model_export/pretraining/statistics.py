"""Measures what a device needs of the words of a pretraining."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from model_export.pretraining.corpus import NOISE


def measure(embeddings: Floats, words: NDArray[np.str_], samples: int, noises: int, seed: int) -> EmbeddingStatistics:
    """Measure the embeddings of a corpus.

    Args:
        embeddings: float32 [clips, embedding].
        words: the word of every clip.
        samples: clips of every word to keep; fewer where a word has fewer, then repeated.
        noises: clips of noise to keep at most.
        seed: decides which are kept.
    """
    rng = np.random.default_rng([seed, 1])
    vocabulary = tuple(sorted(set(map(str, words)) - {NOISE}))
    groups = [embeddings[words == word].astype(np.float64) for word in vocabulary]
    residuals = np.concatenate([group - group.mean(axis=0) for group in groups])
    degrees = max(1, len(residuals) - len(groups))
    noise = embeddings[words == NOISE]
    return EmbeddingStatistics(
        words=vocabulary,
        means=np.stack([group.mean(axis=0) for group in groups]).astype(np.float32),
        counts=np.array([len(group) for group in groups], np.int64),
        within=(residuals.T @ residuals / degrees).astype(np.float32),
        samples=np.stack([np.resize(rng.permutation(group), (samples, group.shape[1])) for group in groups]).astype(
            np.float32
        ),
        noise=noise[np.sort(rng.permutation(len(noise))[:noises])],
    )
