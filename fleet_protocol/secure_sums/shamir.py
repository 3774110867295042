"""Shamir's secret sharing (Shamir 1979), byte by byte over GF(256) with the polynomial of AES (FIPS 197, 4.2).

Neither time nor memory that is read depends on a secret: products are made of shifts, without tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import SecureSumError

MOST_HOLDERS = 255
_REDUCTION = 0x1B  # x^8 = x^4 + x^3 + x + 1

Bytes = NDArray[np.uint8]


def times(secret: Bytes, factor: int) -> Bytes:
    """Return products in GF(256), uint8 as ``secret``; only ``factor``, 0 to 255, decides what is computed."""
    product, shifted = np.zeros_like(secret), secret.copy()
    one, reduction = np.uint8(1), np.uint8(_REDUCTION)
    while factor:
        if factor & 1:
            product ^= shifted
        carried = shifted >> np.uint8(7)
        shifted = np.bitwise_xor(np.left_shift(shifted, one), carried * reduction)
        factor >>= 1
    return product


def share_out(secret: bytes, threshold: int, places: tuple[int, ...], coefficients: bytes) -> dict[int, bytes]:
    """Return a share for each place, as long as the secret; ``threshold`` of them give it, fewer say nothing.

    Args:
        secret: What is shared.
        threshold: Number of shares that are needed, from 1.
        places: x coordinates, 1 to 255, all different.
        coefficients: ``threshold - 1`` times as many random bytes as the secret has; never used for another secret.

    Raises SecureSumError: places or lengths do not fit.
    """
    if len(coefficients) != (threshold - 1) * len(secret) or not 1 <= threshold <= len(places):
        raise SecureSumError(f"{threshold} of {len(places)} shares cannot be made of {len(coefficients)} random bytes")
    _require_places(places)
    rows = np.frombuffer(secret + coefficients, np.uint8).reshape(threshold, len(secret))
    return {place: reduce(lambda sum_, row: times(sum_, place) ^ row, rows[::-1]).tobytes() for place in places}


def put_together(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret by exactly as many shares as are needed, by place; wrong ones give a wrong secret.

    Raises SecureSumError: there are none, places do not fit, or their lengths differ.
    """
    places = tuple(shares)
    _require_places(places)
    if len({len(share) for share in shares.values()}) != 1:
        raise SecureSumError(f"shares of one secret are all as long; these have {sorted(map(len, shares.values()))}")
    terms = (times(np.frombuffer(shares[place], np.uint8), _at_zero(place, places)) for place in places)
    return reduce(np.bitwise_xor, terms).tobytes()


def _at_zero(place: int, places: tuple[int, ...]) -> int:
    """Return the Lagrange polynomial of a place at x = 0; in this field minus is plus, and both are xor."""
    product = 1
    for other in places:
        if other != place:
            product = _product(product, _product(other, _inverse(place ^ other)))
    return product


def _product(one: int, other: int) -> int:
    """Return a product of public numbers: places."""
    product = 0
    while other:
        product ^= one * (other & 1)
        one = (one << 1) ^ (0x100 | _REDUCTION) * (one >> 7)
        other >>= 1
    return product


@cache
def _inverse(value: int) -> int:
    """Return value^254, which is 1 / value: there are 255 numbers but 0."""
    square, power = value, 1
    for _ in range(7):  # 254 = 2 + 4 + ... + 128
        square = _product(square, square)
        power = _product(power, square)
    return power


def _require_places(places: tuple[int, ...]) -> None:
    if len(set(places)) != len(places) or not places or not all(1 <= place <= MOST_HOLDERS for place in places):
        raise SecureSumError(f"places of shares are different numbers from 1 to {MOST_HOLDERS}, not {places}"[:300])
