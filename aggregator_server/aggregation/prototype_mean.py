"""From the devices' prototypes of one class to the fleet's: over devices, not over clips.

    m = sum_k w_k p_k / sum_k w_k   or the geometric median,   w_k = min(n_k, vote_cap)

p_k is device k's mean embedding of its n_k clips. Ten speakers tell more of a class than ten takes of one: hence the
cap. The geometric median is taken of whitened prototypes, in which clips of a class scatter alike in all directions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aggregator_server.aggregation.geometric_median import geometric_shares
from aggregator_server.aggregation.rule import ScoreRule
from fleet_protocol.arrays import Doubles
from fleet_protocol.setting import Setting, Value

MEAN, GEOMETRIC_MEDIAN = "mean", "geometric_median"


def combine(prototypes: Doubles, counts: Doubles, whitening: Doubles, values: Mapping[str, Value]) -> Doubles:
    """Return a class's prototype, float64 [numbers]; the same bit for bit for the same rows in the same order.

    Args:
        prototypes: one row for each device, float64 [devices, numbers].
        counts: clips behind each row, float64 [devices].
        whitening: matrix after which clips of a class scatter alike, float64 [numbers, numbers].
        values: of the rule's settings.
    """
    weights = np.minimum(counts, float(values["vote_cap"]))
    shares = weights / weights.sum()
    if values["centre"] == GEOMETRIC_MEDIAN:
        shares = geometric_shares(prototypes @ whitening, weights)
    result: Doubles = shares @ prototypes
    return result


RULE = ScoreRule(
    "prototype_mean",
    {
        "centre": Setting(GEOMETRIC_MEDIAN, "what stands for a class's devices", options=(MEAN, GEOMETRIC_MEDIAN)),
        "vote_cap": Setting(3, "clips from which more give a device no more weight; 1: all devices alike", 1, 10_000),
        "provisional": Setting(3, "devices below which a class that the fleet discovered is provisional", 1, 1_000),
    },
)
