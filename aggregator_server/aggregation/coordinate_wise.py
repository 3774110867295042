"""The coordinate-wise median and trimmed mean (Yin et al. 2018, "Byzantine-robust distributed learning").

    theta_j = median of theta_{1,j} ... theta_{n,j},   for every weight j                                 definition 1
    theta_j = mean of theta_{1,j} ... theta_{n,j} without the floor(b n) largest and as many smallest     definition 2

How many clips a device says it has does not count: a device that lies would lie about that too.
"""

import numpy as np

from aggregator_server.aggregation.rule import LESS_THAN_HALF, Rule
from aggregator_server.aggregation.updates import Updates, floor_of
from fleet_protocol.methods.setting import Setting
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


def trimmed_mean(updates: Updates, trim: float) -> Floats:
    """Return the mean of every weight, float32 [weights], without the share ``trim`` (b) of values at either end."""
    cut = floor_of(trim, len(updates))
    result = np.empty(updates.layout.width, np.float32)

    def trimmed(_: str, columns: slice, values: Floats) -> None:
        by_weight = values.T.copy()
        by_weight.sort(axis=1)
        result[columns] = by_weight[:, cut : len(updates) - cut].mean(axis=1, dtype=np.float64)

    updates.in_runs(trimmed)
    return result


_TRIM = Setting(0.1, "share of the values cut off at either end, weight by weight", 0.0, LESS_THAN_HALF)
RULE = (
    Rule("median", {}, lambda updates, _sizes, _values: (coordinate_median(updates), {})),
    Rule("trimmed_mean", {"trim": _TRIM}, lambda updates, _sizes, values: (trimmed_mean(updates, values["trim"]), {})),
)
