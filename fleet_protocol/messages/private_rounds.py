"""The messages of a private round, in which the aggregator learns sums alone (docs/private-rounds.md).

Keys, signatures and shares are hex digits. ``fleet_protocol.secure_sums`` says how they are made and checked.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from fleet_protocol.messages.field_meaning import Doc

# The stages of a private round, in order; `contribute` is that of open rounds, with a masked upload.
PrivateStage = Literal["keys", "shares", "contribute", "unmask"]


@dataclass(frozen=True)
class PrivatePlan:
    """How a private round sums."""

    group_size: Annotated[int, Doc("Devices of a group, about: the aggregator learns the sum of each group")]
    noise: Annotated[
        float, Doc("Standard deviation of the noise in a group's sum, in lengths of what a device adds; 0: no noise")
    ] = 0.0
    statistics: Annotated[str, Doc("With noise: digest of the front end's statistics that whiten embeddings")] = ""


@dataclass(frozen=True)
class Member:
    """A device of a group, by the keys that it sent."""

    device_id: Annotated[str, Doc("Identifier of the device")]
    signing_key: Annotated[str, Doc("Its Ed25519 public key, 64 hex digits, the same in every round")]
    mask_key: Annotated[str, Doc("Its X25519 public key of this round for masks, 64 hex digits")]
    share_key: Annotated[str, Doc("Its X25519 public key of this round for shares, 64 hex digits")]
    signature: Annotated[str, Doc("By its signing key over round, device and both keys, 128 hex digits")]


@dataclass(frozen=True, kw_only=True)
class PrivateWork:
    """What a stage of a private round tells a device of its group; what belongs to other stages is empty."""

    members: Annotated[tuple[Member, ...], Doc("From ``shares`` on: the group, in the order of the deal")] = ()
    shares: Annotated[
        dict[str, str], Doc("``contribute``: what each neighbour encrypted for this device, by the neighbour")
    ] = field(default_factory=dict)
    taking_part: Annotated[
        tuple[str, ...], Doc("From ``contribute`` on: devices of the group that sent shares, in the group's order")
    ] = ()
    uploaded: Annotated[
        tuple[str, ...], Doc("``unmask``: devices of ``taking_part`` whose masked upload arrived, in that order")
    ] = ()


@dataclass(frozen=True)
class RoundKeys:
    """Stage ``keys``: the keys that a device drew for one round."""

    mask_key: Annotated[str, Doc("X25519 public key for masks, 64 hex digits")]
    share_key: Annotated[str, Doc("X25519 public key for shares, 64 hex digits")]
    signature: Annotated[str, Doc("By the device's signing key over round, device and both keys, 128 hex digits")]


@dataclass(frozen=True)
class EncryptedShares:
    """Stage ``shares``: what a device's neighbours need to replace it, which only they can read."""

    roster: Annotated[str, Doc("Digest of the group as the device was told it, 64 hex digits")]
    commitment: Annotated[str, Doc("Digest of the seed of its self mask, to recognise wrong shares, 64 hex digits")]
    shares: Annotated[dict[str, str], Doc("By neighbour: shares of both secrets, encrypted for it, 160 hex digits")]


@dataclass(frozen=True)
class RevealedShares:
    """Stage ``unmask``: of each device of the neighbourhood, a share of one of its two secrets."""

    self_seeds: Annotated[dict[str, str], Doc("By device that uploaded, itself included: 64 hex digits")]
    mask_keys: Annotated[dict[str, str], Doc("By device that took part and did not upload: 64 hex digits")]
