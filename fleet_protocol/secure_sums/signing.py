"""Who a device is to other devices: its Ed25519 key says which keys of a private round are its own."""

from __future__ import annotations

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import Member, RoundKeys
from fleet_protocol.secure_sums.primitives import is_signed, sign
from fleet_protocol.secure_sums.roster import signed_bytes


def signed_keys(signing_key: bytes, context: bytes, device_id: str, mask_key: str, share_key: str) -> RoundKeys:
    """Return a round's keys with the device's signature."""
    return RoundKeys(mask_key, share_key, sign(signing_key, signed_bytes(context, device_id, mask_key, share_key)))


def require_signed(member: Member, context: bytes) -> None:
    """Refuse a device's keys that it did not sign for this round, in hex digits. Raises SecureSumError."""
    text = signed_bytes(context, member.device_id, member.mask_key, member.share_key)
    if not is_signed(member.signing_key, member.signature, text):
        raise SecureSumError(
            f"the keys of device {member.device_id} are not signed by it for this round", member.device_id
        )
