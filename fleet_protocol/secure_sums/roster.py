"""A group of a private round as each of its devices was told it: who is in it, by signed keys, and who holds shares.

Above some size a device deals with its nearest on a ring alone (Bell et al. 2020), so that its work does not grow.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fleet_protocol.errors import SecureSumError
from fleet_protocol.limits import LEAST_GROUP
from fleet_protocol.messages.private_rounds import Member, RoundKeys
from fleet_protocol.messages.rest import RoundPlan, to_json
from fleet_protocol.secure_sums.primitives import is_signed, sign
from fleet_protocol.secure_sums.shamir import MOST_HOLDERS

_ALL_ARE_NEIGHBOURS = 21
_EACH_SIDE = 10
_DEVICE = re.compile("[0-9a-f]{32}")
_KEY = re.compile("[0-9a-f]{64}")
_SIGNATURE = re.compile("[0-9a-f]{128}")
_KEYS = b"auricle private round keys 1"
_GROUP = b"auricle private round group 1"


def context_digest(round_id: int, plan: RoundPlan, public_set: str, class_ids: Sequence[str]) -> bytes:
    """Return the SHA-256 of all that decides what a device sends in a round; whoever was told otherwise has another."""
    # A whole number is written as one, whichever type either side read it into.
    document = json.loads(json.dumps(to_json(plan)), parse_float=_number)
    text = json.dumps([round_id, document, public_set, list(class_ids)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _signed_bytes(context: bytes, device_id: str, mask_key: str, share_key: str) -> bytes:
    """Return what a device signs to say that both keys are its own, for one round alone."""
    return _KEYS + context + bytes.fromhex(device_id) + bytes.fromhex(mask_key) + bytes.fromhex(share_key)


def signed_keys(signing_key: bytes, context: bytes, device_id: str, mask_key: str, share_key: str) -> RoundKeys:
    """Return a round's keys with the device's signature."""
    return RoundKeys(mask_key, share_key, sign(signing_key, _signed_bytes(context, device_id, mask_key, share_key)))


def require_signed(member: Member, context: bytes) -> None:
    """Refuse a device's keys that it did not sign for this round, in hex digits. Raises SecureSumError."""
    text = _signed_bytes(context, member.device_id, member.mask_key, member.share_key)
    if not is_signed(member.signing_key, member.signature, text):
        raise SecureSumError(
            f"the keys of device {member.device_id} are not signed by it for this round", member.device_id
        )


def smallest_group(group_size: int) -> int:
    """Return how few devices of a round's groups may be summed."""
    return max(LEAST_GROUP, -(-group_size // 2))


def largest_group(group_size: int) -> int:
    """Return how many devices a group has at most: what one more would be dealt into two."""
    return min(2 * group_size - 1, MOST_HOLDERS)


def threshold_of(holders: int) -> int:
    """Return how many holders of a secret must answer: two thirds.

    A holder reveals one of a device's two secrets. So both are known only if a third of the holders reveal both.
    """
    return -(-2 * holders // 3)


@dataclass(frozen=True)
class Roster:
    """A group, in the order of the deal, of one round."""

    context: bytes  # :func:`context_digest` of the round
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        """Refuse what is no group. Raises SecureSumError."""
        for member in self.members:
            require_form(member)
        for what in ("device_id", "signing_key", "mask_key", "share_key"):
            values = [getattr(member, what) for member in self.members]
            if len(set(values)) != len(values):
                raise SecureSumError(f"two devices of the group have the same {what}")
        if not LEAST_GROUP <= len(self.members) <= MOST_HOLDERS:
            raise SecureSumError(
                f"the group has {len(self.members)} devices; from {LEAST_GROUP} to {MOST_HOLDERS} can be summed"
            )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the round and of all members in their order."""
        fields = ("device_id", "signing_key", "mask_key", "share_key", "signature")
        keys = b"".join(bytes.fromhex(getattr(member, name)) for member in self.members for name in fields)
        return hashlib.sha256(_GROUP + self.context + keys).digest()

    @property
    def fewest(self) -> int:
        """Of how few of its devices the group's sum may be."""
        return threshold_of(len(self.members))

    @cached_property
    def places(self) -> dict[str, int]:
        """Place of each device, from 0; its shares have this and 1 as their x coordinate."""
        return {member.device_id: place for place, member in enumerate(self.members)}

    def member(self, device_id: str) -> Member:
        """Return a device of the group. Raises SecureSumError: it is not in it."""
        if device_id not in self.places:
            raise SecureSumError(f"device {device_id[:32]!r} is not in the group")
        return self.members[self.places[device_id]]

    def neighbours(self, device_id: str) -> tuple[str, ...]:
        """Return with whom a device shares masks and secrets, in the group's order. Raises SecureSumError."""
        self.member(device_id)
        size, own = len(self.members), self.places[device_id]
        return tuple(
            other
            for other, place in self.places.items()
            if place != own
            and (size <= _ALL_ARE_NEIGHBOURS or min((place - own) % size, (own - place) % size) <= _EACH_SIDE)
        )

    def holders(self, device_id: str) -> tuple[str, ...]:
        """Return who has shares of a device's secrets: it and its neighbours, in the group's order."""
        return tuple(sorted((*self.neighbours(device_id), device_id), key=self.places.__getitem__))

    def threshold(self, device_id: str) -> int:
        """Return how many shares of each of a device's secrets are needed."""
        return threshold_of(len(self.neighbours(device_id)) + 1)

    def require_part(self, devices: Sequence[str], what: str, within: Sequence[str] | None = None) -> None:
        """Refuse a list that is not some of the group, or of ``within``, in its order. Raises SecureSumError."""
        allowed = tuple(self.places) if within is None else within
        listed = set(devices)
        if tuple(devices) != tuple(device for device in allowed if device in listed):
            raise SecureSumError(f"the devices that {what} are no part of the group in its order")


def require_form(member: Member) -> None:
    """Refuse a device whose identifier, keys or signature are not hex digits. Raises SecureSumError."""
    forms = {"device_id": _DEVICE, "signing_key": _KEY, "mask_key": _KEY, "share_key": _KEY, "signature": _SIGNATURE}
    for name, form in forms.items():
        if not form.fullmatch(getattr(member, name)):
            raise SecureSumError(f"a member's {name} must be hex digits, not {getattr(member, name)[:140]!r}")
