"""All that a device keeps secret in a private round, derived from 32 random bytes: what is repeated is the same."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import EncryptedShares, RoundKeys
from fleet_protocol.secure_sums.masking import Words, commitment, masked
from fleet_protocol.secure_sums.primitives import KEY_BYTES, derive, keystream, open_agreement, public_key, seal, unseal
from fleet_protocol.secure_sums.roster import Roster, signed_keys
from fleet_protocol.secure_sums.shamir import share_out

_MASK = b"auricle private round mask key 1"
_SHARE = b"auricle private round share key 1"
_SELF = b"auricle private round self seed 1"
_COEFFICIENTS = b"auricle private round coefficients 1 "
_NOISE = b"auricle private round noise 1"
_SEALED = b"auricle private round shares 1"


@dataclass(frozen=True)
class HeldShares:
    """A device's shares of the secrets of another, of which it reveals one at most."""

    self_seed: bytes
    mask_key: bytes


@dataclass(frozen=True)
class RoundSecret:
    """The secret of one device in one round; ``random`` is 32 bytes that nobody else knows."""

    device_id: str
    random: bytes

    @property
    def mask_key(self) -> bytes:
        """Private key of the masks with others."""
        return derive(self.random, _MASK)

    @property
    def _share_key(self) -> bytes:
        return derive(self.random, _SHARE)

    @cached_property
    def _agree_with(self) -> Callable[[str, bytes], bytes]:
        return open_agreement(self._share_key)

    def self_seed(self, roster: Roster) -> bytes:
        """Return the seed of the device's own mask in a group."""
        return derive(self.random, _SELF + roster.digest)

    def noise_key(self, roster: Roster) -> bytes:
        """Return the key of the device's share of a group's noise."""
        return derive(self.random, _NOISE + roster.digest)

    def keys(self, signing_key: bytes, context: bytes) -> RoundKeys:
        """Return what the device sends in the stage ``keys``."""
        mask_key, share_key = public_key(self.mask_key), public_key(self._share_key)
        return signed_keys(signing_key, context, self.device_id, mask_key, share_key)

    def require_own(self, roster: Roster, signing_key: str) -> None:
        """Refuse a group in which the device's keys are not its own. Raises SecureSumError."""
        own = roster.member(self.device_id)
        keys = (signing_key, public_key(self.mask_key), public_key(self._share_key))
        if (own.signing_key, own.mask_key, own.share_key) != keys:
            raise SecureSumError("the group has this device with keys that are not its own")

    def own_shares(self, roster: Roster) -> dict[str, HeldShares]:
        """Return the shares of the device's secrets by their holders, itself among them."""
        holders, threshold = roster.holders(self.device_id), roster.threshold(self.device_id)
        places = tuple(roster.places[holder] + 1 for holder in holders)

        def shared(secret: bytes, purpose: bytes) -> dict[int, bytes]:
            key = derive(self.random, _COEFFICIENTS + purpose + roster.digest)
            return share_out(secret, threshold, places, keystream(key, (threshold - 1) * KEY_BYTES))

        seeds, keys = shared(self.self_seed(roster), b"self"), shared(self.mask_key, b"mask")
        return {holder: HeldShares(seeds[place], keys[place]) for holder, place in zip(holders, places, strict=True)}

    def encrypted_shares(self, roster: Roster) -> EncryptedShares:
        """Return what the device sends in the stage ``shares``. Raises SecureSumError: a neighbour's key is none."""
        shares = self.own_shares(roster)
        sealed = {
            other: seal(
                self._key_with(roster, self.device_id, other),
                shares[other].self_seed + shares[other].mask_key,
                _about(roster, self.device_id, other),
            ).hex()
            for other in roster.neighbours(self.device_id)
        }
        return EncryptedShares(roster.digest.hex(), commitment(self.self_seed(roster)), sealed)

    def opened(self, roster: Roster, sealed: Mapping[str, str]) -> dict[str, HeldShares]:
        """Return the shares that neighbours encrypted for the device; not those that nobody can read.

        Who sends such shares harms the sum of its own group alone, as by any other lie. Raises SecureSumError: shares
        of a device that is no neighbour.
        """
        neighbours, found = set(roster.neighbours(self.device_id)), {}
        for other, digits in sealed.items():
            if other not in neighbours:
                raise SecureSumError(f"{other[:32]!r} is no neighbour, and has no shares for this device")
            with suppress(SecureSumError, ValueError):  # it is not hex, or was not sealed by the neighbour
                key, about = self._key_with(roster, other, self.device_id), _about(roster, other, self.device_id)
                text = unseal(key, bytes.fromhex(digits), about)
                if len(text) == 2 * KEY_BYTES:
                    found[other] = HeldShares(text[:KEY_BYTES], text[KEY_BYTES:])
        return found

    def masked(self, roster: Roster, numbers: Words, taking_part: Iterable[str]) -> Words:
        """Return the device's numbers as they travel, uint32 as ``numbers``; errors as ``masking.masked``."""
        present = set(taking_part)
        others = [other for other in roster.neighbours(self.device_id) if other in present]
        return masked(roster, self.device_id, numbers, self.self_seed(roster), self.mask_key, others)

    def _key_with(self, roster: Roster, sender: str, receiver: str) -> bytes:
        other = receiver if sender == self.device_id else sender
        return self._agree_with(roster.member(other).share_key, _about(roster, sender, receiver))


def _about(roster: Roster, sender: str, receiver: str) -> bytes:
    return _SEALED + roster.digest + bytes.fromhex(sender) + bytes.fromhex(receiver)
