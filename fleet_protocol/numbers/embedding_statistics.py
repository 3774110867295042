"""What a device needs of the words of a pretraining: where they lie in the embedding, and how far they scatter.

A bundle whose front end has a pretrained network carries them; so few takes are enough to teach a sound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import BundleError
from fleet_protocol.numbers.arrays import Array, Doubles, Floats
from fleet_protocol.numbers.known import Known, KnownSounds, KnownWords
from fleet_protocol.numbers.tensors import Arrays, pack, unpack

_SHRINKAGE = 0.05
_OTHERS = ("varied_means", "varied_covariance", "speech_means", "speech_covariance")
_RANKS = {"means": 2, "counts": 1, "within_covariance": 2, "samples": 3, "noise": 2, **dict.fromkeys(_OTHERS, 2)}


@dataclass(frozen=True)
class Scatter:
    """Where classes of sounds lie in an embedding, and how far clips of one class scatter."""

    means: Floats  # Mean embedding of every class, float32 [classes, embedding]
    within: Floats  # Covariance of embeddings within a class, pooled over the classes, float32 [embedding, embedding]
    split: int = field(default=0, kw_only=True)  # Numbers of the first network, where there are those of two; else 0

    @property
    def shrunk(self) -> Doubles:
        """Covariance within a word, of which 5 % is replaced by a multiple of the identity, [embedding, embedding]; of
        each network's numbers by a multiple of its own.
        """
        result: Doubles = (1 - _SHRINKAGE) * self.within.astype(np.float64)
        for part in (slice(self.split), slice(self.split, None)):
            variances = np.diagonal(self.within)[part].astype(np.float64)
            spread = max(variances.sum() / max(1, len(variances)), 1e-12)
            result[part, part] += _SHRINKAGE * spread * np.eye(len(variances))
        return result

    @property
    def scatter(self) -> Doubles:
        """Matrix S, [embedding, embedding]: normal numbers, [n, embedding], times S have the shrunk covariance."""
        result: Doubles = np.linalg.cholesky(self.shrunk).T
        return result

    @cached_property
    def whitening(self) -> Doubles:
        """Matrix W for z = (e - mean) W, after which clips scatter alike in all directions, [embedding, embedding].

        W W^T is the inverse of the shrunk covariance within a word.
        """
        result: Doubles = np.linalg.cholesky(np.linalg.inv(self.shrunk))
        return result

    @cached_property
    def centre(self) -> Doubles:
        """Mean of the classes' means, float64 [embedding]."""
        return np.asarray(self.means.mean(axis=0, dtype=np.float64))

    def whitened(self, embeddings: Floats) -> Doubles:
        """Return directions, float64 [clips, embedding] of length 1, whose products are whitened cosines."""
        z = (embeddings - self.centre) @ self.whitening
        return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-9))

    def draw(self, mean: Array, count: int, rng: np.random.Generator) -> Floats:
        """Draw embeddings of a sound, float32 [count, embedding], from N(mean, shrunk covariance within a word)."""
        noise = rng.standard_normal((count, len(mean))) @ self.scatter
        return np.asarray(mean + noise, np.float32)


@dataclass(frozen=True)
class EmbeddingStatistics(Scatter):
    """Embeddings of the words of a pretraining."""

    words: tuple[str, ...]  # Names of the words; ``means`` and ``within`` are theirs
    counts: NDArray[np.int64]  # Clips of every word, int64 [words]
    samples: Floats  # Embeddings of clips of every word, float32 [words, clips, embedding]
    noise: Floats  # Embeddings of clips in which nobody speaks, float32 [clips, embedding]
    varied: Scatter  # Statistics of the same words, over clips and variants of them: moved, stretched, in noise
    speech: Scatter  # Statistics of one class, windows in which words follow one another without a pause, in noise
    known: Known = field(default=Known(), kw_only=True)  # What the network knows with nothing taught
    # The tail of a taught word's score among words that no network heard, if measured: the logit that two hundred of
    # them reach once an hour, -15 to 15, and by how much it rises where the rate falls by a factor of e, 0.25 to 15.
    unheard: tuple[float, float] | None = field(default=None, kw_only=True)

    def directions_as(self, embeddings: Floats, *, sound: bool) -> Doubles:  # noqa: ARG002  (all are of one kind here)
        """Return the directions, float64 [clips, embedding] of length 1, of words or of everyday sounds."""
        return self.whitened(embeddings)

    def directions(self, embeddings: Floats) -> Doubles:
        """Return what makes a whitened cosine with a direction of :meth:`directions_as`, float64 [clips, embedding]."""
        return self.whitened(embeddings)

    def pack(self, more: Mapping[str, Array] | None = None) -> bytes:
        """Return them, and more arrays, as a safetensors file; single clips as float16."""
        arrays: Arrays = {
            "means": self.means,
            "counts": self.counts,
            "within_covariance": self.within,
            "samples": self.samples.astype(np.float16),
            "noise": self.noise.astype(np.float16),
            "varied_means": self.varied.means,
            "varied_covariance": self.varied.within,
            "speech_means": self.speech.means,
            "speech_covariance": self.speech.within,
            **({} if self.known.of_sounds is None else self.known.of_sounds.arrays()),
            **({} if self.known.of_words is None else self.known.of_words.arrays()),
            **(more or {}),
        }
        document: dict[str, object] = {"words": list(self.words)}
        if self.known.sounds:
            document["known"] = list(self.known.sounds)
        if self.unheard is not None:
            document["unheard"] = list(self.unheard)
        return pack(arrays, document)

    @classmethod
    def unpack(cls, data: bytes) -> EmbeddingStatistics:
        """Read what :meth:`pack` wrote; other arrays are ignored.

        Raises TensorError: the bytes are no safetensors file; BundleError: an array or the words are missing, or do not
        fit one another.
        """
        arrays, document = unpack(data)
        words = document.get("words", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise BundleError(f"the embedding's statistics name no words, but {words!r}; make the bundle again")
        for name, rank in _RANKS.items():
            if name not in arrays or arrays[name].ndim != rank:
                raise BundleError(f"the embedding's statistics have no array {name!r} with {rank} axes")
        means, samples, noise = arrays["means"], *(arrays[name].astype(np.float32) for name in ("samples", "noise"))
        varied, speech = (Scatter(arrays[f"{of}_means"], arrays[f"{of}_covariance"]) for of in ("varied", "speech"))
        within, counts, numbers = arrays["within_covariance"], arrays["counts"], means.shape[1]
        sizes = {samples.shape[2], noise.shape[1], *within.shape, *varied.within.shape, *speech.within.shape}
        if (
            (varied.means.shape, speech.means.shape) != (means.shape, (1, numbers))
            or sizes != {numbers}
            or {len(words), len(samples), len(counts)} != {len(means)}
        ):
            raise BundleError("the embedding's statistics do not fit one another; make the bundle again")
        known = Known(KnownSounds.of(arrays, document.get("known")), KnownWords.of(arrays, tuple(words)))
        if known.of_sounds is not None and len(known.of_sounds.hidden) != numbers:
            raise BundleError("the built-in sounds are of another network; make the bundle again")
        unheard = None if document.get("unheard") is None else _unheard(document["unheard"])
        return cls(means, within, tuple(words), counts, samples, noise, varied, speech, known=known, unheard=unheard)


def _unheard(value: Any) -> tuple[float, float]:  # noqa: ANN401
    try:
        level, scale = map(float, value)
    except (TypeError, ValueError, OverflowError):
        level = scale = math.nan
    if not (abs(level) <= 15 and 0.25 <= scale <= 15):  # holds for NaN too
        raise BundleError(f"the tail of words that no network heard must be -15..15 and 0.25..15, not {value!r}")
    return level, scale
