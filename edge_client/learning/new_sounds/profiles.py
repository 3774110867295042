"""Profiles: how much each public recording sounds like a class, as this device hears it.

A linear discriminant (Fisher 1936) on the network's embedding: the class's own clips say where it lies, all clips
together how much clips of one class differ. Unlike the head's scores it does not ask what ELSE the recording could be,
so that devices that know other classes, with networks of another design, still agree (docs/class-discovery.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Doubles, Floats, Ints

# Added to the covariance's diagonal, in shares of its mean: a new class may have fewer clips than the embedding has
# dimensions. From 0.003 to 0.05 it made no difference.
_SHRINKAGE = 0.01


def profiles(public: Floats, own: Floats, slots: Ints, wanted: Sequence[int]) -> Floats:
    """Return float32 [len(wanted), public recordings]: whitened cosines of recordings and class means, -1..1.

    Args:
        public: embeddings of the public recordings, float32 [recordings, embedding].
        own: embeddings of the device's clips, float32 [clips, embedding].
        slots: int64 [clips], the class of each clip.
        wanted: the classes to describe, each with at least one clip.
    """
    classes, member = np.unique(slots, return_inverse=True)
    points = own.astype(np.float64)
    means = np.stack([points[member == index].mean(axis=0) for index in range(len(classes))])
    within = points - means[member]
    covariance = within.T @ within / len(points)
    size = len(covariance)
    loading = max(_SHRINKAGE * np.trace(covariance) / size, float(np.finfo(np.float32).tiny))
    whiten = np.linalg.cholesky(np.linalg.inv(covariance + loading * np.eye(size)))
    origin = public.mean(axis=0, dtype=np.float64)
    chosen = means[np.searchsorted(classes, wanted)]
    cosines = _unit((chosen - origin) @ whiten) @ _unit((public - origin) @ whiten).T
    return np.ascontiguousarray(cosines, np.float32)


def _unit(points: Doubles) -> Doubles:
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(norms > 0, norms, 1.0))
