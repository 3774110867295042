"""Class discovery among thousands of reports: k-medoids on medoids, whose cost grows with their number, not its square.

Reports are cut into blocks, in an order that is drawn, and each block becomes a quarter as many medoids. So do these,
until as many are left as can be compared with one another. What is found among them is then given to all reports:
each belongs to the medoid that it is nearest to. (CLARA, Kaufman & Rousseeuw 1990, looks at a sample alone, and so
misses a sound that few devices have.)
"""

from collections.abc import Callable, Sequence

import numpy as np

from fleet_protocol.arrays import Doubles, Ints

LEFT = 512
"""Medoids that stand for all reports, at most."""
_BLOCK = 256
_SHARE = 4  # of a block's points, one in so many becomes a medoid
_ROWS = 1_024

Clustering = Callable[[Doubles, int], Ints]
"""(distances, float64 [n, n], number of clusters) -> labels, int64 [n]."""


def medoids_of_blocks(unit: Doubles, cluster: Clustering, seed: int) -> Ints:
    """Return points that stand for all, ascending, int64 [at most LEFT].

    Args:
        unit: Points of length 1, float64 [n, numbers]; their distance is 1 - cosine.
        cluster: How a block is clustered.
    """
    left, rng = np.arange(len(unit)), np.random.default_rng(seed)
    while len(left) > LEFT:
        drawn, wanted = rng.permutation(left), max(LEFT, len(left) // _SHARE)
        blocks = np.array_split(drawn, -(-len(drawn) // _BLOCK))
        counts = np.diff(np.arange(len(blocks) + 1) * wanted // len(blocks))
        found = [_medoids(unit, *block, cluster) for block in zip(blocks, counts.tolist(), strict=True)]
        left = np.sort(np.concatenate(found))
    return left


def _medoids(unit: Doubles, block: Ints, count: int, cluster: Clustering) -> Ints:
    """Return a block's medoids, int64 [count]."""
    distances = np.clip(1.0 - unit[block] @ unit[block].T, 0.0, 2.0)
    return block[centres(distances, cluster(distances, count))]


def centres(distances: Doubles, labels: Ints) -> Ints:
    """Return every cluster's medoid in the order of the labels, int64 [clusters]."""
    found = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        found.append(members[distances[np.ix_(members, members)].sum(axis=1).argmin()])
    return np.array(found, np.int64)


def assigned(unit: Doubles, medoids: Ints, device_ids: Sequence[str]) -> Ints:
    """Return every point's nearest medoid, int64 [n]: its place among them.

    Two sounds of one device differ: where both are nearest to one, it gets the nearer one, and the other its next best.
    A device with more sounds than there are medoids has some that share one.
    """
    labels = np.empty(len(unit), np.int64)
    nearness = np.empty(len(unit))
    for start in range(0, len(unit), _ROWS):
        cosines = unit[start : start + _ROWS] @ unit[medoids].T
        labels[start : start + _ROWS] = cosines.argmax(axis=1)
        nearness[start : start + _ROWS] = cosines.max(axis=1)
    of_device: dict[str, list[int]] = {}
    for index, device_id in enumerate(device_ids):
        of_device.setdefault(device_id, []).append(index)
    for indices in of_device.values():
        if len(set(labels[indices].tolist())) < len(indices):
            taken: list[int] = []
            for index in sorted(indices, key=lambda index: (-nearness[index], index)):
                order = np.argsort(-(unit[index] @ unit[medoids].T), kind="stable").tolist()
                labels[index] = next((label for label in order if label not in taken), order[0])
                taken.append(int(labels[index]))
    return labels
