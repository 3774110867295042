"""Measures what a device needs of the words of a pretraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics, Scatter
from model_export.pretraining.corpus import NOISE


@dataclass(frozen=True)
class Embedded:
    """Embeddings of clips, float32 [clips, embedding], and the word of every clip."""

    embeddings: Floats
    words: NDArray[np.str_]

    def of(self, word: str) -> Doubles:
        """Return a word's, float64 [clips, embedding]."""
        return np.asarray(self.embeddings[self.words == word], np.float64)


def measure(
    clips: Embedded, variants: Embedded, speech: Floats, samples: int, noises: int, seed: int
) -> EmbeddingStatistics:
    """Measure the embeddings of a corpus.

    Args:
        clips: as they were recorded; words and noise.
        variants: moved, stretched, in noise; at least two of every word.
        speech: of windows in which words follow one another, in noise, float32 [windows, embedding].
        samples: clips of every word to keep; fewer where a word has fewer, then repeated.
        noises: clips of noise to keep at most.
        seed: decides which are kept.
    """
    rng = np.random.default_rng([seed, 1])
    vocabulary = tuple(sorted(set(map(str, clips.words)) - {NOISE}))
    groups = [clips.of(word) for word in vocabulary]
    varied = [_alike(rng, clips.of(word), variants.of(word)) for word in vocabulary]
    noise = np.concatenate([clips.of(NOISE), variants.of(NOISE)])
    return EmbeddingStatistics(
        means=_means(groups),
        within=_within(groups),
        words=vocabulary,
        counts=np.array([len(group) for group in groups], np.int64),
        samples=np.stack([np.resize(rng.permutation(group), (samples, group.shape[1])) for group in groups]).astype(
            np.float32
        ),
        noise=noise[np.sort(rng.permutation(len(noise))[:noises])].astype(np.float32),
        varied=_scatter(varied),
        speech=_scatter([speech.astype(np.float64)]),
    )


def _alike(rng: np.random.Generator, clips: Doubles, variants: Doubles) -> Doubles:
    """Return variants, and clips: as many where there are as many, so that both kinds count alike."""
    return np.concatenate([rng.permutation(clips)[: len(variants)], variants])


def _scatter(groups: Sequence[Doubles]) -> Scatter:
    return Scatter(_means(groups), _within(groups))


def _means(groups: Sequence[Doubles]) -> Floats:
    return np.asarray(np.stack([group.mean(axis=0) for group in groups]), np.float32)


def _within(groups: Sequence[Doubles]) -> Floats:
    """Return the covariance within groups, pooled over them."""
    residuals = np.concatenate([group - group.mean(axis=0) for group in groups])
    return np.asarray(residuals.T @ residuals / max(1, len(residuals) - len(groups)), np.float32)
