"""Devices of a private round's group without programs around them, and the dealer that they answer to."""

import random
from dataclasses import dataclass, field, replace

import numpy as np

from fleet_protocol.messages.private_rounds import Member, PrivatePlan, RevealedShares
from fleet_protocol.messages.rest import Choice, RoundPlan
from fleet_protocol.secure_sums.masking import commitment
from fleet_protocol.secure_sums.primitives import signing_public_key
from fleet_protocol.secure_sums.roster import Roster, context_digest
from fleet_protocol.secure_sums.round_secret import RoundSecret

PLAN = RoundPlan(
    local=Choice("prototypes"),
    aggregation=Choice("prototype_mean", {"vote_cap": 3, "order": False, "corrections": False}),
    selection=Choice("all"),
    deadline_s=600.0,
    quorum=0.5,
    seed=0,
    private=PrivatePlan(8),
)
CONTEXT = context_digest(1, PLAN, "ab" * 32, ("c0", "c1"))


def plan_of(group_size: int) -> RoundPlan:
    return replace(PLAN, private=PrivatePlan(group_size))


@dataclass
class Group:
    """A group of so many devices, whose secrets a seed gives."""

    size: int
    seed: int = 0
    context: bytes = CONTEXT
    secrets: list[RoundSecret] = field(init=False)
    signing_keys: list[bytes] = field(init=False)
    roster: Roster = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.secrets = [RoundSecret(rng.randbytes(16).hex(), rng.randbytes(32)) for _ in range(self.size)]
        self.signing_keys = [rng.randbytes(32) for _ in range(self.size)]
        self.roster = Roster(self.context, tuple(map(self.member, self.secrets, self.signing_keys)))

    def member(self, secret: RoundSecret, signing_key: bytes) -> Member:
        keys = secret.keys(signing_key, self.context)
        public = signing_public_key(signing_key)
        return Member(secret.device_id, public, keys.mask_key, keys.share_key, keys.signature)

    def revealed(self, taking_part: list[str], uploaded: set[str], answering: set[str]) -> dict[str, RevealedShares]:
        """What those who answer reveal, each by what its neighbours really encrypted for it."""
        sealed = {
            s.device_id: s.encrypted_shares(self.roster).shares for s in self.secrets if s.device_id in taking_part
        }
        found = {}
        for secret in self.secrets:
            own = secret.device_id
            if own not in answering:
                continue
            held = secret.opened(self.roster, {other: to[own] for other, to in sealed.items() if own in to})
            held |= {own: secret.own_shares(self.roster)[own]}
            found[own] = RevealedShares(
                {device: shares.self_seed.hex() for device, shares in held.items() if device in uploaded},
                {device: shares.mask_key.hex() for device, shares in held.items() if device not in uploaded},
            )
        return found

    def masked(self, numbers: dict[str, np.ndarray], taking_part: list[str]) -> dict[str, np.ndarray]:
        return {
            s.device_id: s.masked(self.roster, numbers[s.device_id], taking_part)
            for s in self.secrets
            if s.device_id in numbers
        }

    def commitments(self) -> dict[str, str]:
        return {secret.device_id: commitment(secret.self_seed(self.roster)) for secret in self.secrets}
