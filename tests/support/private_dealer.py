"""The device's part of private rounds on real state folders, and what a dealer tells them, without any network."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.storage.device_state import DeviceState
from fleet_protocol.messages.private_rounds import Member, PrivateWork
from fleet_protocol.messages.rest import ClassInfo, RoundPlan, Work
from fleet_protocol.secure_sums.masking import unmasked
from fleet_protocol.secure_sums.roster import Roster, context_digest
from tests.support.edge_process import give_identity
from tests.support.secure_group import plan_of

CLASSES = (ClassInfo("c0", "yes"), ClassInfo("c1", "no"))


class Party:
    """One device; ``rounds`` is opened anew each time, as after a restart."""

    def __init__(self, folder: Path) -> None:
        give_identity(folder, folder.name)
        self.state = DeviceState(folder)
        self.device_id = self.state.identity.load().device_id

    @property
    def rounds(self) -> PrivateRounds:
        return PrivateRounds(DeviceState(self.state.folder))

    def upload(self, round_id: int, numbers: np.ndarray, present: bytes | None = None) -> bytes:
        """Make the upload and note it, as the training process does."""
        data = self.rounds.upload(round_id, present, lambda mask: mask(numbers).tobytes())
        self.rounds.note_upload(data)
        return data


PLAN_OF_FIVE = plan_of(5)


@dataclass
class Dealer:
    """An aggregator that keeps what it was sent, and makes work of it."""

    parties: list[Party]
    round_id: int = 1
    plan: RoundPlan = PLAN_OF_FIVE
    public_set: str = "ab" * 32
    classes: tuple[ClassInfo, ...] = CLASSES

    def work(self, kind: str, private: PrivateWork | None = None, **changes) -> Work:
        said = {"round_id": self.round_id, "plan": self.plan, "public_set": self.public_set} | changes
        said = {"classes": self.classes} | said
        return Work(kind=kind, consensus=None, private=private, **said)

    def deal(self) -> "Dealer":
        """Stage ``keys``."""
        members = []
        for party in self.parties:
            keys = party.rounds.keys(self.work("keys", PrivateWork()))
            public = party.state.identity.public_signing_key()
            members.append(Member(party.device_id, public, keys.mask_key, keys.share_key, keys.signature))
        self.members = tuple(members)
        context = context_digest(self.round_id, self.plan, self.public_set, [info.class_id for info in self.classes])
        self.roster = Roster(context, self.members)
        return self

    def to_share(self, members=None) -> Work:
        return self.work("shares", PrivateWork(members=self.members if members is None else members))

    def share(self, of=None) -> "Dealer":
        """Stage ``shares``, of some devices."""
        self.sent = {party.device_id: party.rounds.shares(self.to_share()) for party in of or self.parties}
        self.taking_part = tuple(device for device in self.roster.places if device in self.sent)
        return self

    def to_contribute(self, party: Party, **changes) -> Work:
        shares = {
            sender: sent.shares[party.device_id] for sender, sent in self.sent.items() if party.device_id in sent.shares
        }
        said = {"members": self.members, "taking_part": self.taking_part, "shares": shares} | changes
        return self.work("contribute", PrivateWork(**said))

    def collect(self, numbers: dict[str, np.ndarray]) -> "Dealer":
        """Stage ``contribute``, of the devices that have numbers."""
        self.uploads = {}
        for party in self.parties:
            if party.device_id in numbers:
                party.rounds.accept(self.to_contribute(party))
                data = party.upload(self.round_id, numbers[party.device_id])
                self.uploads[party.device_id] = np.frombuffer(data, np.uint32)
        self.uploaded = tuple(device for device in self.taking_part if device in self.uploads)
        return self

    def to_unmask(self, **changes) -> Work:
        said = {"members": self.members, "taking_part": self.taking_part, "uploaded": self.uploaded} | changes
        return self.work("unmask", PrivateWork(**said))

    def sum(self, of=None) -> np.ndarray:
        """Stage ``unmask``: what the answers of some devices give."""
        answering = [party for party in of or self.parties if party.device_id in self.uploads]
        revealed = {party.device_id: party.rounds.unmask(self.to_unmask()) for party in answering}
        commitments = {device: sent.commitment for device, sent in self.sent.items()}
        return unmasked(self.roster, self.taking_part, self.uploads, commitments, revealed)
