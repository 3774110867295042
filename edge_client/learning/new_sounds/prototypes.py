"""Prototypes: where a class lies in the embedding of a front end that all devices of a fleet have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.embedding_statistics import EmbeddingStatistics


def prototypes(features: Floats, slots: Ints, wanted: Sequence[int]) -> Floats:
    """Return the mean features of classes, float32 [len(wanted), frames, numbers].

    Args:
        features: of the device's clips, not normalised, float32 [clips, frames, numbers].
        slots: int64 [clips], the class of each clip.
        wanted: the classes to describe, each with at least one clip.
    """
    means = [features[slots == slot].mean(axis=0, dtype=np.float64) for slot in wanted]
    return np.asarray(np.stack(means), np.float32)


def protected(
    means: Floats, statistics: EmbeddingStatistics, clip_norm: float, noise: float, rng: np.random.Generator
) -> Floats:
    """Return prototypes that no longer tell everything, float32 [classes, frames, numbers].

    z = (p - c) W, c the mean of the pretraining's words, W their whitening;  z <- z min(1, C / ||z||) + sigma N(0, 1)

    Args:
        means: float32 [classes, frames, numbers].
        statistics: of the words of the pretraining.
        clip_norm: C, largest distance; 0: any.
        noise: sigma, standard deviation of the noise on each number; 0: none.
        rng: draws it. Who knows its seed knows the noise.
    """
    if not clip_norm and not noise:
        return means
    centre, whitening = statistics.means.mean(axis=0, dtype=np.float64), statistics.whitening
    z = (means - centre) @ whitening
    if clip_norm:
        z *= np.minimum(1.0, clip_norm / np.maximum(np.linalg.norm(z, axis=-1, keepdims=True), 1e-12))
    if noise:
        z += noise * rng.standard_normal(z.shape)
    return np.asarray(centre + z @ np.linalg.inv(whitening), np.float32)
