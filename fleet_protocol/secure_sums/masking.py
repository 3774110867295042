"""Masks: what a device adds to its numbers so that only a group's sum can be read (Bonawitz et al. 2017, section 4).

y = x + PRG(self seed) + sum of PRG(key with v) over later neighbours v - that over earlier ones, modulo 2^32. In the
sum over a group the masks of pairs cancel. At the round's end the aggregator takes the other masks away from it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import RevealedShares
from fleet_protocol.secure_sums.primitives import KEY_BYTES, derive, keystream, open_agreement, public_key
from fleet_protocol.secure_sums.roster import Roster
from fleet_protocol.secure_sums.shamir import put_together

Words = NDArray[np.uint32]  # [numbers], modulo 2^32

_SELF = b"auricle private round self mask 1"
_PAIR = b"auricle private round pair mask 1"
_COMMITMENT = b"auricle private round commitment 1"
# Sets of shares that are tried for one secret: with 21 holders, enough for one wrong share among 16.
_MOST_TRIED = 256


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
    """Add a mask, ChaCha20's keystream in little-endian words, in place; ``sign``: 1, or -1 to take it away."""
    stream = np.frombuffer(keystream(key, 4 * len(numbers)), "<u4").astype(np.uint32, copy=False)
    np.add(numbers, stream, out=numbers) if sign > 0 else np.subtract(numbers, stream, out=numbers)


def masked(
    roster: Roster, device_id: str, numbers: Words, seed: bytes, mask_key: bytes, others: Iterable[str]
) -> Words:
    """Return a device's numbers under its own mask and those with ``others``, its neighbours that take part."""
    result = numbers.copy()
    add_mask(result, self_key(seed), 1)
    for key, sign in pair_keys(roster, device_id, mask_key, others).items():
        add_mask(result, key, sign)
    return result


def unmasked(
    roster: Roster,
    taking_part: Sequence[str],
    uploads: Mapping[str, Words],
    commitments: Mapping[str, str],
    revealed: Mapping[str, RevealedShares],
) -> Words:
    """Return the sum of a group's numbers, uint32 [numbers], modulo 2^32.

    Args:
        roster: The group.
        taking_part: Devices that sent shares.
        uploads: Masked numbers by device, at least one; all of ``taking_part``.
        commitments: ``EncryptedShares.commitment`` by device.
        revealed: What devices answered in the stage ``unmask``, by device.

    Raises SecureSumError, which names the device: too few shares of it, or too many wrong ones.
    """
    total = np.zeros_like(next(iter(uploads.values())))
    for numbers in uploads.values():
        np.add(total, numbers, out=total)
    for device in uploads:
        seed = _secret(
            roster, device, _by_place(roster, device, revealed, "self_seeds"), commitments[device], commitment
        )
        add_mask(total, self_key(seed), -1)
    for device in taking_part:
        if device not in uploads:
            shares = _by_place(roster, device, revealed, "mask_keys")
            key = _secret(roster, device, shares, roster.member(device).mask_key, public_key)
            others = [other for other in roster.neighbours(device) if other in uploads]
            # The missing half of each pair: what the device itself would have added.
            for pair, sign in pair_keys(roster, device, key, others).items():
                add_mask(total, pair, sign)
    return total


def require_revealed(
    roster: Roster, device_id: str, taking_part: Iterable[str], uploaded: Iterable[str], revealed: RevealedShares
) -> None:
    """Refuse an answer of other devices or secrets than were asked for. Raises SecureSumError.

    Some may lack: who encrypted no share that its neighbour can read, has none there.
    """
    holders, present = roster.holders(device_id), set(uploaded)
    wanted = {device for device in holders if device in present}
    missing = {device for device in holders if device in set(taking_part) - present}
    if not (set(revealed.self_seeds) <= wanted and set(revealed.mask_keys) <= missing):
        raise SecureSumError(
            "shares must be of devices of the neighbourhood, and of the secret that was asked for", device_id
        )
    for share in (*revealed.self_seeds.values(), *revealed.mask_keys.values()):
        if len(share) != 2 * KEY_BYTES or not set(share) <= set("0123456789abcdef"):
            raise SecureSumError(f"a share is {2 * KEY_BYTES} hex digits, not {share[:70]!r}", device_id)


def _by_place(roster: Roster, device: str, revealed: Mapping[str, RevealedShares], which: str) -> dict[int, bytes]:
    """Return the shares of a device's secret by the x coordinates of their holders."""
    found = (
        (holder, getattr(revealed[holder], which).get(device))
        for holder in roster.holders(device)
        if holder in revealed
    )
    return {roster.places[holder] + 1: bytes.fromhex(share) for holder, share in found if share is not None}


def _secret(
    roster: Roster, device: str, shares: Mapping[int, bytes], mark: str, mark_of: Callable[[bytes], str]
) -> bytes:
    """Return the secret that has a mark. Raises SecureSumError: no set of shares that was tried gives it."""
    threshold = roster.threshold(device)
    if len(shares) < threshold:
        said = f"{len(shares)} shares of device {device} were revealed, and {threshold} are needed"
        raise SecureSumError(said, device)
    for places in islice(combinations(shares, threshold), _MOST_TRIED):
        secret = put_together({place: shares[place] for place in places})
        if mark_of(secret) == mark:
            return secret
    raise SecureSumError(f"shares of device {device} are wrong: its secret cannot be put together", device)
