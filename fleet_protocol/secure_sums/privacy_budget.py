"""What rounds with noise can have told of a device: epsilon at a delta, exactly, for any number of them.

A round whose noise has the standard deviation z, in lengths of what one device adds, is a Gaussian mechanism with
mu = 1/z. Several are one mechanism with mu^2 = sum of 1/z^2 (Dong, Roth and Su 2022, "Gaussian differential privacy"),
of which Balle and Wang 2018, theorem 8, give

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
"""

import math
from collections.abc import Callable

DELTA = 1e-5
_MOST = 500.0  # epsilon, beyond which it says nothing
_STEPS = 200


def spent_by(noise: float) -> float:
    """Return what one round spends, mu^2: what several spend adds up. Without noise: infinity."""
    return 1 / noise**2 if noise > 0 else math.inf


def epsilon_of(spent: float) -> float:
    """Return epsilon at :data:`DELTA` of rounds that spent so much together; infinity from 500 on."""
    if spent <= 0:
        return 0.0
    mu = math.sqrt(spent)
    if math.isinf(mu) or _delta(_MOST, mu) > DELTA:
        return math.inf
    return _least(lambda epsilon: _delta(epsilon, mu) <= DELTA, _MOST)


def noise_for(epsilon: float) -> float:
    """Return the least noise, z, with which a single round tells no more than an epsilon, above 0."""
    return _least(lambda noise: epsilon_of(spent_by(noise)) <= epsilon, 1e6)


def _delta(epsilon: float, mu: float) -> float:
    return _phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _least(is_enough: Callable[[float], bool], most: float) -> float:
    """Return by bisection from what number on something holds, which it does at ``most``."""
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
