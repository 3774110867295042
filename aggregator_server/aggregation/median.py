"""The coordinate-wise median (Yin et al. 2018, "Byzantine-robust distributed learning", definition 1).

    theta_j = median of theta_{1,j} ... theta_{n,j},   for every weight j

How many clips a device says it has does not count: a device that lies would lie about that too.
"""

from collections.abc import Callable

import numpy as np

from aggregator_server.aggregation.rule import Rule
from aggregator_server.aggregation.updates import Updates, in_blocks
from fleet_protocol.arrays import Doubles, Floats

_COLUMNS = 256


def coordinate_median(updates: Updates) -> Floats:
    """Return the median of every weight, float32 [weights]; of an even number, the mean of the two in the middle."""
    middle = slice((len(updates) - 1) // 2, len(updates) // 2 + 1)
    return by_rank(updates, lambda ranked: ranked[:, middle].mean(axis=1, dtype=np.float64))


def by_rank(updates: Updates, combine: Callable[[Floats], Doubles]) -> Floats:
    """Apply ``combine`` to the ascending values of every weight, float32 [some weights, devices]."""
    result = np.empty(updates.layout.width, np.float32)

    def rank(columns: slice) -> None:
        ranked = np.ascontiguousarray(updates.matrix[:, columns].T)
        ranked.sort(axis=1)
        result[columns] = combine(ranked)

    in_blocks(rank, updates.layout.width, _COLUMNS)
    return result


RULE = Rule("median", {}, lambda updates, _sizes, _values: (coordinate_median(updates), {}))
