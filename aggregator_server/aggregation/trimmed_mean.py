"""The coordinate-wise trimmed mean (Yin et al. 2018, "Byzantine-robust distributed learning", definition 2).

    theta_j = mean of theta_{1,j} ... theta_{n,j} without the floor(b n) largest and as many smallest

How many clips a device says it has does not count: a device that lies would lie about that too.
"""

import numpy as np

from aggregator_server.aggregation.rule import LESS_THAN_HALF, Rule
from aggregator_server.aggregation.updates import Updates, floor_of
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Floats
from fleet_protocol.setting import Setting


def trimmed_mean(updates: Updates, trim: float) -> Floats:
    """Return the trimmed mean of every weight, float32 [weights].

    Args:
        trim: b, the share of the values cut off at either end, from 0 to below 0.5.

    Raises:
        AggregationError: nothing would be left.
    """
    if not 0 <= trim < 0.5:
        raise AggregationError(f"trim is cut off at either end, so it must be from 0 to below 0.5, not {trim!r}")
    cut = floor_of(trim, len(updates))
    result = np.empty(updates.layout.width, np.float32)

    def trimmed(_: str, columns: slice, values: Floats) -> None:
        by_weight = values.T.copy()
        by_weight.sort(axis=1)
        result[columns] = by_weight[:, cut : len(updates) - cut].mean(axis=1, dtype=np.float64)

    updates.in_runs(trimmed)
    return result


RULE = Rule(
    "trimmed_mean",
    {"trim": Setting(0.1, "share of the values cut off at either end, weight by weight", 0.0, LESS_THAN_HALF)},
    lambda updates, _sizes, values: (trimmed_mean(updates, values["trim"]), {}),
)
