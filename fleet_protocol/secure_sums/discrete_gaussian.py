"""Exact discrete Gaussian noise (Canonne, Kamath, Steinke 2020, "The discrete Gaussian for differential privacy").

P(x) is proportional to exp(-x^2 / (2 variance)) on the whole numbers. Every decision compares whole numbers, so no
rounding of floats tells anything (Mironov 2012). The random numbers are a ChaCha20 keystream.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import SecureSumError
from fleet_protocol.secure_sums.primitives import open_keystream

Whole = NDArray[np.uint64]

MOST_VARIANCE = 2**26
"""With more, products would not fit into 64 bits."""
_SHORT = 2**24  # bounds up to which words of 32 bits do, of which few are drawn anew
# Scales of the Laplace distribution beyond which its draws are refused: it gives such with e^-16, and they would be
# taken with e^-112.
_FARTHEST = 16


def discrete_gaussian(variance: int, count: int, key: bytes) -> NDArray[np.int64]:
    """Return independent draws, int64 [count]; the same for the same key (Algorithm 3, of sigma^2 = variance).

    Raises SecureSumError: the variance is not from 1 to 2^26.
    """
    if not 1 <= variance <= MOST_VARIANCE:
        raise SecureSumError(f"noise has a variance from 1 to {MOST_VARIANCE} units, not {variance!r}")
    draws, scale = _Draws(key), math.isqrt(variance) + 1
    found, lacking = [np.zeros(0, np.int64)], count
    while lacking > 0:
        tried = draws.laplace(scale, 2 * lacking + 16)
        near = tried[np.abs(tried) < _FARTHEST * scale]
        apart = np.abs(np.abs(near) * scale - variance).astype(np.uint64)
        taken = near[draws.exp_minus(apart * apart, 2 * variance * scale * scale)]
        found.append(taken[:lacking])
        lacking -= len(found[-1])
    return np.concatenate(found)


class _Draws:
    """Random decisions; arrays are [n], one decision each."""

    def __init__(self, key: bytes) -> None:
        self._take: Callable[[int], bytes] = open_keystream(key)

    def exp_minus(self, above: Whole, below: int) -> NDArray[np.bool_]:
        """Return decisions that are true with exp(-above / below) (Algorithm 1)."""
        ones = above // np.uint64(below)
        result = self._exp_minus_fraction(above - ones * np.uint64(below), below)
        going = np.flatnonzero(result & (ones > 0))
        while len(going):
            lasts = self._exp_minus_one(len(going))
            result[going[~lasts]] = False
            ones[going] -= np.uint64(1)
            going = going[lasts & (ones[going] > 0)]
        return result

    def laplace(self, scale: int, tries: int) -> NDArray[np.int64]:
        """Return draws, P(x) proportional to exp(-|x| / scale), int64; fewer than were tried (Algorithm 2)."""
        words, unit = self._words(tries, 2 * scale)
        drawn = words // words.dtype.type(unit)
        rest, is_below = (drawn >> drawn.dtype.type(1)).astype(np.uint64), drawn % drawn.dtype.type(2) == 1
        stays = self._exp_minus_fraction(rest, scale)
        rest, is_below = rest[stays], is_below[stays]
        turns, going = np.zeros(len(rest), np.int64), np.arange(len(rest))
        while len(going):
            going = going[self._exp_minus_one(len(going))]
            turns[going] += 1
        sizes = rest.astype(np.int64) + scale * turns
        kept = ~(is_below & (sizes == 0))  # or 0 would come twice as often
        return np.asarray(np.where(is_below, -sizes, sizes)[kept])

    def _exp_minus_one(self, count: int) -> NDArray[np.bool_]:
        return self._exp_minus_fraction(np.ones(count, np.uint64), 1)

    def _exp_minus_fraction(self, above: Whole, below: int) -> NDArray[np.bool_]:
        """Return decisions that are true with exp(-above / below), where that is no more than 1."""
        result, going, k = np.zeros(len(above), np.bool_), np.arange(len(above)), 1
        while len(going):
            words, unit = self._words(len(going), below * k)
            lasts = words < above[going] * np.uint64(unit)
            result[going[~lasts]] = k % 2 == 1
            going, k = going[lasts], k + 1
        return result

    def _words(self, count: int, bound: int) -> tuple[NDArray[Any], int]:
        """Return words, uniform from 0 to below bound times a unit, and the unit; others were drawn anew."""
        kind = np.dtype("<u4" if bound <= _SHORT else "<u8")
        unit = 2 ** (8 * kind.itemsize) // bound
        last = kind.type(unit * bound - 1)
        words = np.frombuffer(self._take(kind.itemsize * count), kind).copy()
        while len(lacking := np.flatnonzero(words > last)):
            words[lacking] = np.frombuffer(self._take(kind.itemsize * len(lacking)), kind)
        return words, unit
