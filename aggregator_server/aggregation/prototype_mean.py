"""The geometric median: the point with the smallest sum of distances to given points (Weiszfeld 1937).

    m = argmin_m sum_k w_k || x_k - m ||,   by m <- sum_k c_k x_k / sum_k c_k,   c_k = w_k / max(nu, || x_k - m ||)

With less than half of the weight, liars move it only so far, wherever they say that they are (Pillutla et al. 2022,
"Robust aggregation for federated learning", whose smoothing nu is used).
"""

from collections.abc import Mapping

import numpy as np

from aggregator_server.aggregation.rule import Rule
from fleet_protocol.methods.setting import Setting, Value
from fleet_protocol.numbers.arrays import Doubles

_STEPS = 500
# Smoothing, and the movement from which the result stands, as shares of the points' median distance from their median.
_SMOOTHING, _STANDS = 1e-6, 1e-9


def geometric_shares(points: Doubles, weights: Doubles) -> Doubles:
    """Return the share of every point in the weighted geometric median, float64 [n], with sum 1.

    Args:
        points: float64 [n, numbers], at least one.
        weights: float64 [n], all above 0.
    """
    shares: Doubles = weights / weights.sum()
    middle = np.median(points, axis=0)
    scale = max(float(np.median(np.linalg.norm(points - middle, axis=1))), 1e-9)
    for _ in range(_STEPS):
        pulls = weights / np.maximum(np.linalg.norm(points - middle, axis=1), _SMOOTHING * scale)
        shares = np.asarray(pulls / pulls.sum())
        former, middle = middle, shares @ points
        if np.linalg.norm(middle - former) <= _STANDS * scale:
            break
    return shares


MEAN, GEOMETRIC_MEDIAN = "mean", "geometric_median"


def weights_of(counts: Doubles, values: Mapping[str, Value]) -> Doubles:
    """Return what devices weigh by their clips, float64 [devices]."""
    return np.asarray(np.minimum(counts, float(values["vote_cap"])))


def combine(prototypes: Doubles, counts: Doubles, whitening: Doubles, values: Mapping[str, Value]) -> Doubles:
    """Return a class's prototype, float64 [numbers]; the same bit for bit for the same rows in the same order.

    Args:
        prototypes: one row for each device, float64 [devices, numbers].
        counts: clips behind each row, float64 [devices].
        whitening: matrix after which clips of a class scatter alike, float64 [numbers, numbers].
        values: Values of the rule's settings.
    """
    weights = weights_of(counts, values)
    shares = weights / weights.sum()
    if values["centre"] == GEOMETRIC_MEDIAN:
        shares = geometric_shares(prototypes @ whitening, weights)
    result: Doubles = shares @ prototypes
    return result


RULE = Rule(
    "prototype_mean",
    {
        "centre": Setting(GEOMETRIC_MEDIAN, "what stands for a class's devices", options=(MEAN, GEOMETRIC_MEDIAN)),
        "vote_cap": Setting(3, "clips from which more give a device no more weight; 1: all devices alike", 1, 10_000),
        "provisional": Setting(3, "devices below which a class that the fleet discovered is provisional", 1, 1_000),
        "corrections": Setting(True, "whether what an owner said is not a sound travels to all devices"),
        "order": Setting(True, "whether what comes before the end of a long word travels to all devices"),
    },
)
