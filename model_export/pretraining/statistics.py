"""What a device needs of the words of a pretraining: where they lie in the embedding, and how far they scatter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.tensors import Arrays, pack
from model_export.pretraining.corpus import NOISE

_SHRINKAGE = 0.05


@dataclass(frozen=True)
class Statistics:
    """Embeddings of the words of a pretraining.

    Attributes:
        words: the words.
        means: mean embedding of every word, float32 [words, embedding].
        counts: clips of every word, int64 [words].
        within: covariance of the embeddings within a word, pooled over the words, float32 [embedding, embedding].
        samples: embeddings of clips of every word, float32 [words, clips, embedding].
        noise: embeddings of clips in which nobody speaks, float32 [clips, embedding].
    """

    words: tuple[str, ...]
    means: Floats
    counts: NDArray[np.int64]
    within: Floats
    samples: Floats
    noise: Floats

    def pack(self, head: dict[str, Floats]) -> bytes:
        """Return them, and a trained head's arrays, as a safetensors file."""
        arrays: Arrays = {
            "means": self.means, "counts": self.counts, "within_covariance": self.within,
            "samples": self.samples, "noise": self.noise, **head,
        }  # fmt: skip
        return pack(arrays, {"words": list(self.words)})

    @property
    def whitening(self) -> Doubles:
        """Matrix W for z = (e - mean) W, after which clips scatter alike in all directions, [embedding, embedding].

        W W^T is the inverse of the within-class covariance, 5 % of which is shrunk to a multiple of the identity.
        """
        covariance = self.within.astype(np.float64)
        size = len(covariance)
        spread = max(np.trace(covariance) / size, 1e-12)
        shrunk = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * spread * np.eye(size)
        result: Doubles = np.linalg.cholesky(np.linalg.inv(shrunk))
        return result

    def whitened(self, embeddings: Floats) -> Doubles:
        """Return directions, float64 [clips, embedding] of length 1, whose products are whitened cosines."""
        z = (embeddings - self.means.mean(axis=0, dtype=np.float64)) @ self.whitening
        return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-9))


def measure(embeddings: Floats, words: NDArray[np.str_], samples: int, noises: int, seed: int) -> Statistics:
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
    return Statistics(
        words=vocabulary,
        means=np.stack([group.mean(axis=0) for group in groups]).astype(np.float32),
        counts=np.array([len(group) for group in groups], np.int64),
        within=(residuals.T @ residuals / degrees).astype(np.float32),
        samples=np.stack([np.resize(rng.permutation(group), (samples, group.shape[1])) for group in groups]).astype(
            np.float32
        ),
        noise=noise[np.sort(rng.permutation(len(noise))[:noises])],
    )
