"""Decisions on the scores of a whole stream at many thresholds: those of the posterior handler, without its steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.listening.scoring import Heard
from edge_client.detection.posterior_handling import RELEASE, ROUNDING_S
from fleet_protocol.arrays import Floats

Times = np.ndarray[tuple[int], np.dtype[np.float64]]


def averaged(scores: Floats, at_s: Times, average_s: float) -> Floats:
    """Return what :class:`edge_client.detection.posterior_handling.PosteriorHandler` averages, float32 [hops, labels].

    Args:
        scores: float32 [hops, labels], of each window alone.
        at_s: [hops], when each window ended, s.
        average_s: time over which scores are averaged, s.
    """
    first = np.searchsorted(at_s, at_s - average_s + ROUNDING_S)
    first = np.minimum(first, np.arange(len(at_s)))
    sums = np.concatenate([np.zeros((1, scores.shape[1])), np.cumsum(scores, axis=0, dtype=np.float64)])
    last = np.arange(len(at_s)) + 1
    means: Floats = ((sums[last] - sums[first]) / (last - first)[:, None]).astype(np.float32)
    return means


def decisions(
    scores: Floats,
    at_s: Times,
    labels: Sequence[str],
    thresholds: Floats,
    refractory_s: float,
    release: float = RELEASE,
) -> list[Heard]:
    """Return what is heard, as the posterior handler decides.

    Args:
        scores: averaged ones, float32 [hops, labels].
        at_s: [hops], when each window ended, s.
        labels: their names.
        thresholds: float32 [labels].
        refractory_s: time after an event in which the same label makes no other, s.
        release: share of its threshold below which a label's score falls before it can be heard again; of a negative
            threshold, as of minus a distance, 1 alone makes sense.
    """
    best = scores.argmax(axis=1)
    rows: NDArray[np.intp] = np.arange(len(scores))
    heard = []
    for slot, label in enumerate(labels):
        candidates = np.flatnonzero((best == slot) & (scores[rows, slot] >= thresholds[slot]))
        released = np.flatnonzero(scores[:, slot] < release * thresholds[slot])
        last = -1
        for row in candidates:
            if last >= 0:
                rested = at_s[row] - at_s[last] >= refractory_s - ROUNDING_S
                armed = np.searchsorted(released, row) > np.searchsorted(released, last)
                if not rested or not armed:
                    continue
            last = int(row)
            heard.append(Heard(float(at_s[row]), label))
    return sorted(heard, key=lambda one: one.at_s)
