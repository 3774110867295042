"""The bounds that stand before every rule of aggregation: on what an upload holds, on numbers of clips, and on norms.

A rule weighs and averages numbers that strangers send. Each is therefore one that an honest device can come to, or the
upload is refused. A number of clips cannot be checked, so it counts up to a multiple of what is usual in the fleet.

Norm clipping lets no device move the fleet further than the others (Sun et al. 2019):
    theta_k <- theta + (theta_k - theta) * min(1, c / || theta_k - theta ||_2),   theta what the devices started from
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.updates import Updates, layer_distances
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.limits import CLIPS_CAP, LARGEST_WEIGHT
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Array, Bools, Doubles, Floats

# Of probabilities that a device computed in float32, perhaps with float16 weights.
_TOLERANCE = 1e-3
CLIPPED_CLIPS: dict[str, Setting] = {
    "clips_cap": Setting(
        CLIPS_CAP, "medians of the round's numbers of clips above which more clips do not count; 0: no limit", 0.0, 1e9
    )
}


@dataclass(frozen=True)
class FeatureRange:
    """The values that features of public recordings have."""

    low: Floats  # smallest value of each number of a frame, float32 [numbers]
    high: Floats  # largest value, float32 [numbers]

    @classmethod
    def of(cls, features: Floats) -> FeatureRange:
        """Return the range of features, float32 [recordings, frames, numbers]."""
        return cls(features.min(axis=(0, 1)), features.max(axis=(0, 1)))

    def check(self, name: str, values: Array, ranges: float, least: float = 0.1) -> None:
        """Check that descriptions of sounds, float32 [..., numbers], lie at most so many widths of the range beyond it.

        ``least``: width that each number has at least, in mean widths of all. Raises MalformedUpdateError: a value is
        too far off.
        """
        width = self.high - self.low
        width = np.maximum(width, max(least * float(width.mean()), 1e-6)).astype(np.float32)
        low, high = self.low - np.float32(ranges) * width, self.high + np.float32(ranges) * width
        off = (values < low) | (values > high)
        if off.any():
            where = _first(off)
            raise MalformedUpdateError(
                f"array {name!r} holds {values[where]:g} at {where}; the public recordings' features allow "
                f"{low[where[-1]]:g} to {high[where[-1]]:g} there"
            )


def _first(off: Bools) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(off)[0])


def check_probabilities(name: str, scores: Array) -> None:
    """Check that rows, float32 [samples, classes], are probabilities. Raises MalformedUpdateError: they are not."""
    off = (scores < -_TOLERANCE) | (scores > 1 + _TOLERANCE)
    if off.any():
        where = _first(off)
        raise MalformedUpdateError(
            f"array {name!r} holds {scores[where]:g} at {where}; scores are probabilities, from 0 to 1"
        )
    sums = scores.sum(axis=1, dtype=np.float64)
    if (sums > 1 + _TOLERANCE).any():
        row = int(np.argmax(sums))
        raise MalformedUpdateError(
            f"row {row} of array {name!r} sums to {sums[row]:g}; scores are probabilities, which sum to at most 1"
        )


def check_cosines(name: str, values: Array) -> None:
    """Check that values are cosines. Raises MalformedUpdateError: one is not from -1 to 1."""
    off = np.abs(values) > 1 + _TOLERANCE
    if off.any():
        where = _first(off)
        raise MalformedUpdateError(f"array {name!r} holds {values[where]:g} at {where}; cosines are from -1 to 1")


def check_weights(name: str, weights: Array) -> None:
    """Check that weights are no larger than training makes them. Raises MalformedUpdateError: one is."""
    largest = float(np.abs(weights).max(initial=0.0))
    if largest > LARGEST_WEIGHT:
        raise MalformedUpdateError(
            f"array {name!r} holds a weight of size {largest:.3g}; at most {LARGEST_WEIGHT:g} is taken. "
            "The device's training diverged: lower the learning rate"
        )


def capped_sizes(sizes: Doubles, medians: float) -> Doubles:
    """Return numbers of clips, float64 [devices], of which none is above so many medians of them (0: no limit)."""
    return np.minimum(sizes, medians * usual_size(sizes)) if medians and sizes.any() else sizes


def usual_size(sizes: Doubles) -> float:
    """Return the lower median of the sizes above 0, which less than half of the devices cannot raise; else 1."""
    known = np.sort(sizes[sizes > 0])
    return float(known[(len(known) - 1) // 2]) if len(known) else 1.0


CLIPPING: dict[str, Setting] = {
    "clip_norm": Setting(0.0, "largest L2 norm of a device's update, longer ones are shortened; 0: none is", 0.0, 1e9)
}


def clip_norms(updates: Updates, previous: Floats, limit: float) -> dict[str, float]:
    """Shorten the updates whose norm is above c, ``limit``; the others stay as they are, to the last bit.

    Their rows are overwritten, in memory or on disk: the matrix is the only copy of the uploads, and may be most of the
    memory. ``previous``: float32 [weights], what the devices started from. Returns the norms of those, by device.
    """
    squares = sum(layer_distances(updates, previous).values(), np.zeros(len(updates)))
    norms = np.sqrt(squares)
    longer = np.flatnonzero(norms > limit)

    def shorten(_: str, columns: slice, values: Floats) -> None:
        difference = np.subtract(values[longer], previous[columns], dtype=np.float64)
        values[longer] = previous[columns] + difference * (limit / norms[longer])[:, None]

    if len(longer):
        updates.in_runs(shorten)
    return {updates.device_ids[row]: float(norms[row]) for row in longer}
