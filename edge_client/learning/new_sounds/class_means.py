"""Prototypes: where a class lies in the embedding of a front end that all devices of a fleet have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Floats, Ints


def class_means(features: Floats, slots: Ints, wanted: Sequence[int]) -> Floats:
    """Return the mean features of classes, float32 [len(wanted), frames, numbers].

    Args:
        features: of the device's clips, not normalised, float32 [clips, frames, numbers].
        slots: int64 [clips], the class of each clip.
        wanted: the classes to describe, each with at least one clip.
    """
    means = [features[slots == slot].mean(axis=0, dtype=np.float64) for slot in wanted]
    return np.asarray(np.stack(means), np.float32)
