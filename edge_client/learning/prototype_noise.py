"""A class's mean embedding with Gaussian noise, so that one clip of it is hard to tell from another.

Each embedding's whitened distance from a public centre is clipped to C, the clipped ones are averaged, and normal noise
is added (the Gaussian mechanism: Dwork & Roth 2014, appendix A; its exact epsilon: Balle & Wang 2018). The aggregator
undoes nothing: what leaves is an embedding like any other mean.

**Sensitivity.** The number of clips n is no secret: it travels with the mean. When one clip is replaced by another, the
whitened mean moves by at most 2 C / n. When all n clips are replaced, as when another person had taught the class, it
moves by at most 2 C. The noise has the standard deviation ``noise`` x 2 C / n in every whitened direction. So
``noise`` is the noise multiplier for one clip, and ``noise`` / n that for the whole class of a device.
"""

from __future__ import annotations

import hashlib

import numpy as np

from edge_client.errors import FeatureError
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics


def private_mean(
    embeddings: Floats, statistics: EmbeddingStatistics, clip_norm: float, noise: float, rng: np.random.Generator
) -> Floats:
    """Return the mean embedding of a class with noise, float32 [d], of its clips' embeddings, float32 [n, d].

    Raises FeatureError if there is no embedding, one is not finite, or ``clip_norm`` or ``noise`` is out of range.

    Args:
        statistics: of the words of the pretraining, which are public: they have the centre and the whitening.
        clip_norm: greatest whitened distance of an embedding from the centre, C.
        noise: noise multiplier for one clip; 0: the plain mean, neither clipped nor noisy.
        rng: draws the noise. Whoever can predict it can subtract it: see :func:`noise_rng`.
    """
    _require(embeddings, clip_norm, noise)
    if noise == 0:
        return np.asarray(embeddings.mean(axis=0, dtype=np.float64), np.float32)
    mean = clipped(embeddings, statistics, clip_norm).mean(axis=0)
    mean += rng.normal(scale=noise * sensitivity(clip_norm, len(embeddings)), size=mean.shape)
    return np.asarray(_centre(statistics) + np.linalg.solve(statistics.whitening.T, mean), np.float32)


def clipped(embeddings: Floats, statistics: EmbeddingStatistics, clip_norm: float) -> Doubles:
    """Return whitened embeddings less the centre, shortened to ``clip_norm`` where longer, float64 [n, d]."""
    z: Doubles = (embeddings - _centre(statistics)) @ statistics.whitening
    norms = np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(z * np.minimum(1.0, clip_norm / np.maximum(norms, 1e-12)))


def sensitivity(clip_norm: float, count: int) -> float:
    """Return how far the mean of ``count`` clipped embeddings moves at most when one of them is replaced, 2 C / n."""
    return 2 * clip_norm / count


def noise_rng(key: bytes, embeddings: Floats, clip_norm: float, noise: float) -> np.random.Generator:
    """Return the generator of a mean's noise: the same for the same clips, unknown to whoever lacks the key.

    A device that sends a class again without a change to its clips sends the same numbers, which tell nothing new.
    Fresh noise in every round could be averaged away. Another ``clip_norm`` or ``noise`` must not draw the same noise.

    Raises FeatureError if the key, which never leaves the device, has not 16 to 64 bytes.
    """
    if not 16 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise FeatureError(f"the key of a mean's noise has 16 to 64 random bytes, not {len(key)}; draw another one")
    rows = sorted(row.tobytes() for row in np.asarray(embeddings, np.float32))  # their order tells nothing
    state = hashlib.blake2b(b"".join(rows), key=key, digest_size=32)
    state.update(np.array([clip_norm, noise, *embeddings.shape], np.float64).tobytes())
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(int.from_bytes(state.digest(), "little"))))


def _centre(statistics: EmbeddingStatistics) -> Doubles:
    return np.asarray(statistics.means.mean(axis=0, dtype=np.float64))


def _require(embeddings: Floats, clip_norm: float, noise: float) -> None:
    if not len(embeddings) or not np.isfinite(embeddings).all():
        raise FeatureError(f"a mean needs finite embeddings, got {len(embeddings)}; leave out what is not finite")
    if not 0 <= noise < np.inf:
        raise FeatureError(f"the noise of a mean is 0 (off) or more, not {noise}")
    if noise and not 0 < clip_norm < np.inf:
        raise FeatureError(f"noise needs a clip_norm greater than 0, not {clip_norm}; with noise = 0 there is none")
