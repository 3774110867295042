"""Epsilon and delta of the noise of means, by Google's library `dp-accounting`."""

from __future__ import annotations

import math

import dp_accounting

DELTA = 1e-5


def epsilon(noise: float, releases: int = 1, delta: float = DELTA) -> float:
    """Return the epsilon of means with noise; infinite without.

    It is exact for one mean (Balle & Wang 2018, theorem 8), and for several: k means with noise multiplier s tell as
    much as one with s / sqrt(k) (Dong, Roth & Su 2022, corollary 3.3).

    Args:
        noise: standard deviation of the noise in units of the sensitivity: as
            :func:`edge_client.learning.prototype_noise.private_mean` takes it for one clip that is replaced by another,
            divided by the number of clips for all of them.
        releases: means that were sent of the same clips, each with new noise.
        delta: probability with which the bound may not hold.
    """
    return float(dp_accounting.get_epsilon_gaussian(noise / math.sqrt(releases), delta))


def greatest_area(noise: float) -> float:
    """Return the area under the curve that no attack exceeds, whatever it knows of the other clips.

    The two hypotheses are normal distributions that lie 1 / noise standard deviations apart (Dong, Roth & Su 2022,
    definition 2.6).

    Args:
        noise: as of :func:`epsilon`.
    """
    return (1 + math.erf(1 / (2 * noise))) / 2 if noise else 1.0
