"""Masks: what a device adds to its numbers so that only a group's sum can be read (Bonawitz et al. 2017, section 4).

y = x + PRG(self seed) + sum of PRG(key with v) over later neighbours v - that over earlier ones, modulo 2^32. In the
sum over a group the masks of pairs cancel.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.secure_sums.primitives import derive, keystream, open_agreement
from fleet_protocol.secure_sums.roster import Roster

Words = NDArray[np.uint32]  # [numbers], modulo 2^32

_SELF = b"auricle private round self mask 1"
_PAIR = b"auricle private round pair mask 1"
_COMMITMENT = b"auricle private round commitment 1"


def self_key(seed: bytes) -> bytes:
    """Return the key of a device's own mask."""
    return derive(seed, _SELF)


def commitment(seed: bytes) -> str:
    """Return what tells a self seed from others, and nothing about it, as hex digits."""
    return derive(seed, _COMMITMENT).hex()


def pair_keys(roster: Roster, device_id: str, mask_key: bytes, others: Iterable[str]) -> dict[bytes, int]:
    """Return the keys of a device's masks with others, and the sign of each: 1, or -1 with devices before it.

    ``mask_key`` is its private one. Raises SecureSumError: somebody is not in the group, or has no usable key.
    """
    own, agree_with = roster.places[device_id], open_agreement(mask_key)
    return {
        agree_with(roster.member(other).mask_key, _PAIR + roster.digest): 1 if own < roster.places[other] else -1
        for other in others
    }


def add_mask(numbers: Words, key: bytes, sign: int) -> None:
    """Add a mask to numbers in place; ``sign``: 1, or -1 to take it away."""
    stream = keystream_of(key, len(numbers))
    np.add(numbers, stream, out=numbers) if sign > 0 else np.subtract(numbers, stream, out=numbers)


def keystream_of(key: bytes, count: int) -> Words:
    """Return a key's mask, uint32 [count]: ChaCha20's keystream, little-endian."""
    return np.frombuffer(keystream(key, 4 * count), "<u4").astype(np.uint32, copy=False)


def masked(
    roster: Roster, device_id: str, numbers: Words, seed: bytes, mask_key: bytes, others: Iterable[str]
) -> Words:
    """Return a device's numbers under its own mask and those with ``others``, its neighbours that take part."""
    result = numbers.copy()
    add_mask(result, self_key(seed), 1)
    for key, sign in pair_keys(roster, device_id, mask_key, others).items():
        add_mask(result, key, sign)
    return result
