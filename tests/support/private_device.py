"""A device of a private round as the protocol has it, without a model or state behind it: a test may have it lie."""

from dataclasses import asdict, dataclass

import numpy as np

from fleet_protocol.messages.private_rounds import RevealedShares
from fleet_protocol.messages.rest import Update, Work
from fleet_protocol.numbers.tensors import pack
from fleet_protocol.secure_sums.layouts import SumLayout
from fleet_protocol.secure_sums.primitives import signing_public_key
from fleet_protocol.secure_sums.roster import Roster, context_digest
from fleet_protocol.secure_sums.round_secret import RoundSecret
from tests.support.embedded_words import SETTINGS, WORDS, PrototypeDevice, described


@dataclass
class PrivateDevice(PrototypeDevice):
    """Its secrets come from its number, so that the same round has the same bytes."""

    said: np.ndarray | None = None  # what it says of all its classes, instead of clips

    @property
    def signing_key(self) -> bytes:
        return bytes([self.number % 251 + 1]) * 32

    def enrolment(self, **changes) -> dict:
        return super().enrolment(**{"signing_key": signing_public_key(self.signing_key)} | changes)

    def secret_of(self, round_id: int) -> RoundSecret:
        return RoundSecret(self.device_id, np.random.default_rng([self.number, round_id]).bytes(32))

    def roster(self, work: Work) -> Roster:
        class_ids = tuple(info.class_id for info in work.classes)
        context = context_digest(work.round_id, work.plan, work.public_set, class_ids)
        return Roster(context, work.private.members)

    def layout(self, work: Work) -> SumLayout:
        return SumLayout.of(work.plan, len(work.classes), SETTINGS.shape)

    def takes(self) -> tuple[np.ndarray, np.ndarray]:
        """Its prototypes, float32 [classes, 1, numbers], and the clips behind each."""
        rng = np.random.default_rng([self.number, 3])
        arrays = described([WORDS[int(class_id[1:])] for class_id in self.classes], (), 1 + self.number % 5, rng)
        if self.said is not None:
            arrays["prototypes"] = np.stack([np.asarray(self.said, np.float32)[None]] * len(self.classes))
        return arrays["prototypes"], arrays["counts"]

    def numbers(self, work: Work) -> np.ndarray:
        """Its table as it is summed, without a mask."""
        rows = zip(self.classes, *self.takes(), strict=True)
        said = {int(class_id[1:]): ((mean,), int(clips), 0.0) for class_id, mean, clips in rows}
        return self.layout(work).own(said)

    def answer(self, work: Work) -> dict | bytes:
        """What it sends in a stage: a message, or the masked upload."""
        secret = self.secret_of(work.round_id)
        if work.kind == "keys":
            class_ids = tuple(info.class_id for info in work.classes)
            context = context_digest(work.round_id, work.plan, work.public_set, class_ids)
            return asdict(secret.keys(self.signing_key, context))
        roster = self.roster(work)
        if work.kind == "shares":
            return asdict(secret.encrypted_shares(roster))
        if work.kind == "contribute":
            return self.masked_upload(work, secret.masked(roster, self.numbers(work), work.private.taking_part))
        return asdict(self.revealed(work, roster, secret))

    def masked_upload(self, work: Work, numbers: np.ndarray, **changes) -> bytes:
        class_ids = tuple(info.class_id for info in work.classes)
        said = {"round_id": work.round_id, "device_id": self.device_id, "features": self.settings.digest}
        said |= {"public_set": work.public_set, "classes": class_ids, "known": class_ids, "clips": 0}
        return pack({"masked": numbers}, asdict(Update(**(said | changes))))

    def revealed(self, work: Work, roster: Roster, secret: RoundSecret) -> RevealedShares:
        """Its shares; those that neighbours encrypted for it stand in work of the stage before."""
        held = secret.opened(roster, self.sealed) | {self.device_id: secret.own_shares(roster)[self.device_id]}
        uploaded = set(work.private.uploaded)
        near = [one for one in roster.holders(self.device_id) if one in work.private.taking_part and one in held]
        return RevealedShares(
            {one: held[one].self_seed.hex() for one in near if one in uploaded},
            {one: held[one].mask_key.hex() for one in near if one not in uploaded},
        )

    sealed: dict | None = None  # what neighbours encrypted for it
