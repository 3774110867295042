"""Shamir's secret sharing (Shamir 1979), byte by byte over GF(256) with the polynomial of AES (FIPS 197, 4.2).

Neither time nor memory that is read depends on a secret: products are made of shifts, without tables.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import SecureSumError

MOST_HOLDERS = 255
_REDUCTION = 0x1B  # x^8 = x^4 + x^3 + x + 1

Bytes = NDArray[np.uint8]


def times(secret: Bytes, factors: Bytes) -> Bytes:
    """Return products in GF(256), uint8 as both broadcast; only the public ``factors`` decide what is computed."""
    product, shifted = np.zeros(np.broadcast_shapes(secret.shape, factors.shape), np.uint8), secret.copy()
    one, reduction = np.uint8(1), np.uint8(_REDUCTION)
    for bit in range(int(factors.max()).bit_length()):
        product ^= shifted * ((factors >> np.uint8(bit)) & one)
        shifted = (shifted << one) ^ ((shifted >> np.uint8(7)) * reduction)
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
    at, shares = np.array(places, np.uint8)[:, None], np.zeros((len(places), len(secret)), np.uint8)
    for row in rows[::-1]:
        shares = times(shares, at) ^ row
    return {place: share.tobytes() for place, share in zip(places, shares, strict=True)}


def put_together(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret by exactly as many shares as are needed, by place; wrong ones give a wrong secret.

    Raises SecureSumError: there are none, places do not fit, or their lengths differ.
    """
    places = tuple(shares)
    _require_places(places)
    if len({len(share) for share in shares.values()}) != 1:
        raise SecureSumError(f"shares of one secret are all as long; these have {sorted(map(len, shares.values()))}")
    rows = np.frombuffer(b"".join(shares.values()), np.uint8).reshape(len(shares), -1)
    factors = np.array([_at_zero(place, places) for place in places], np.uint8)[:, None]
    return bytes(np.bitwise_xor.reduce(times(rows, factors)).tobytes())


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
