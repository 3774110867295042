"""The geometric median: the point with the smallest sum of distances to given points (Weiszfeld 1937).

    m = argmin_m sum_k w_k || x_k - m ||,   by m <- sum_k c_k x_k / sum_k c_k,   c_k = w_k / max(nu, || x_k - m ||)

With less than half of the weight, liars move it only so far, wherever they say that they are (Pillutla et al. 2022,
"Robust aggregation for federated learning", whose smoothing nu is used).
"""

from __future__ import annotations

import numpy as np

from fleet_protocol.arrays import Doubles

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
