"""Deals groups of clips, such as a speaker's, to parts that want certain numbers of each label; no group is split."""

from __future__ import annotations

import numpy as np

from fleet_protocol.arrays import Doubles, Ints


def deal_groups(
    counts: Ints, targets: Doubles, bounded: int, rng: np.random.Generator, *, spread: bool = False
) -> tuple[Ints, Ints]:
    """Give groups, largest first, to the part that lacks most of what they have.

    Args:
        counts: clips of each group and label, int64 [groups, labels].
        targets: clips that each part should get of each label, float64 [parts, labels].
        bounded: so many of the first parts have no use for more than their target; the others have, and the one that
            has least of it first.
        rng: draws the order among groups of one size.
        spread: whether a group counts the less for a part, the larger it is beside the part's target, so that parts
            that want few clips get them from many groups: by how much the sum of (target - given)^2 / target falls.

    Returns:
        The groups in the order in which they were given, and the part of each of these.
    """
    order = rng.permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(axis=1), kind="stable")]
    given = np.zeros_like(targets)
    parts = np.empty(len(counts), np.int64)
    for place, group in enumerate(counts[order]):
        lack = np.divide(targets - given, targets, out=np.zeros_like(targets), where=targets > 0)
        if spread:
            lack -= np.divide(group / 2, targets, out=np.zeros_like(targets), where=targets > 0)
        more = 1e-3 * targets[bounded:] / np.maximum(given[bounded:], 1.0)
        lack[bounded:] = np.maximum(lack[bounded:], more)
        wants = (targets[:, group > 0] > 0).any(axis=1)
        parts[place] = np.where(wants, lack @ group, -np.inf).argmax()
        given[parts[place]] += group
    return order, parts
