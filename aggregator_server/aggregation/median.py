"""The coordinate-wise median (Yin et al. 2018, "Byzantine-robust distributed learning", definition 1).

    theta_j = median of theta_{1,j} ... theta_{n,j},   for every weight j

How many clips a device says it has does not count: a device that lies would lie about that too.
"""

import numpy as np

from aggregator_server.aggregation.rule import Rule
from aggregator_server.aggregation.updates import Updates
from fleet_protocol.numbers.arrays import Floats


def coordinate_median(updates: Updates) -> Floats:
    """Return the median of every weight, float32 [weights]; of an even number, the mean of the two in the middle."""
    low, high = (len(updates) - 1) // 2, len(updates) // 2
    result = np.empty(updates.layout.width, np.float32)

    def middle(_: str, columns: slice, values: Floats) -> None:
        by_weight = values.T.copy()
        by_weight.partition((low, high), axis=1)  # a third of what sorting takes
        result[columns] = by_weight[:, low : high + 1].mean(axis=1, dtype=np.float64)

    updates.in_runs(middle)
    return result


RULE = Rule("median", {}, lambda updates, _sizes, _values: (coordinate_median(updates), {}))
