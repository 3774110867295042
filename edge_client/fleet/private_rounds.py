"""The device's answers to the stages of a private round (docs/private-rounds.md).

The server may lie. So each stage is noted before it is answered, and another story of the same round is refused:
whoever was told two could reveal both secrets of a device, or the difference of two sums.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

from edge_client.errors import WorkError
from edge_client.storage.device_state import DeviceState
from edge_client.storage.private_round_note import PrivateRoundNote
from fleet_protocol.errors import SecureSumError
from fleet_protocol.limits import LARGEST_GROUP, LEAST_GROUP
from fleet_protocol.messages.private_rounds import EncryptedShares, PrivateWork, RevealedShares, RoundKeys
from fleet_protocol.messages.rest import RoundPlan, Work
from fleet_protocol.methods.local_methods import local_methods
from fleet_protocol.numbers.tensors import digest
from fleet_protocol.secure_sums.bounded_sums import BoundedLayout
from fleet_protocol.secure_sums.masking import Words
from fleet_protocol.secure_sums.primitives import KEY_BYTES, is_available, signing_public_key
from fleet_protocol.secure_sums.roster import Roster, context_digest, largest_group, require_signed, smallest_group
from fleet_protocol.secure_sums.round_secret import RoundSecret

# Of the other strategies what a device adds has no bound.
_WITH_NOISE = "prototypes"


class PrivateRounds:
    """Answers as one device; every method raises SecureSumError where the server asks what it must not."""

    def __init__(self, state: DeviceState, budget: float | None = None) -> None:
        """Take a state folder, and the epsilon that all rounds together may come to, if there is a limit."""
        self._state, self._store, self._budget = state, state.private_rounds, budget

    def answer(self, work: Work) -> RoundKeys | EncryptedShares | RevealedShares | None:
        """Return the answer to a stage that needs no training; None of other work, once it may be done."""
        match work.kind:
            case "keys":
                return self.keys(work)
            case "shares":
                return self.shares(work)
            case "unmask":
                return self.unmask(work)
        if work.kind == "contribute" and work.plan.private is not None:
            self.accept(work)
        return None

    def keys(self, work: Work) -> RoundKeys:
        """Return the keys of a round; its secret is drawn when it is first asked for."""
        _require_plan(work.plan, len(work.classes))
        self._state.privacy.require_within(self._budget, work.plan.private)
        context = _context(work)
        note = self._store.load()
        if note is None or note.round_id < work.round_id:
            note = PrivateRoundNote(round_id=work.round_id, context=context.hex(), secret=os.urandom(KEY_BYTES).hex())
            self._store.save(note)
        _require_same_round(note, work)
        return self._secret(note).keys(self._state.identity.signing_key(), context)

    def shares(self, work: Work) -> EncryptedShares:
        """Return what the neighbours of the device's group need to replace it."""
        note, told = self._note(work), _told(work)
        if note.members and note.members != told.members:
            raise SecureSumError(f"round {work.round_id}: the server named another group before")
        roster, plan = Roster(bytes.fromhex(note.context), told.members), work.plan.private
        assert plan is not None  # as the round's keys required, and its context has
        few, many = smallest_group(plan.group_size), largest_group(plan.group_size)
        if not few <= len(roster.members) <= many:
            raise SecureSumError(
                f"round {work.round_id}: a group of {len(roster.members)} devices; this round's have {few} to {many}"
            )
        secret = self._secret(note)
        secret.require_own(roster, signing_public_key(self._state.identity.signing_key()))
        for member in roster.members:
            require_signed(member, roster.context)
        self._store.require_known(roster.members)
        self._store.save(dataclasses.replace(note, members=roster.members))
        return secret.encrypted_shares(roster)

    def accept(self, work: Work) -> None:
        """Take note of who takes part, before anything is masked."""
        note, told = self._note(work), _told(work)
        roster, secret = _roster(note, told), self._secret(note)
        if note.taking_part and (note.taking_part, note.shares) != (told.taking_part, told.shares):
            raise SecureSumError(f"round {work.round_id}: the server said before that others take part")
        roster.require_part(told.taking_part, "take part")
        own, present = secret.device_id, set(told.taking_part)
        neighbours = present.intersection(roster.neighbours(own))
        if own not in present or len(neighbours) + 1 < roster.threshold(own) or len(present) < roster.fewest:
            raise SecureSumError(f"round {work.round_id}: too few neighbours take part to hide this device among them")
        if set(told.shares) != neighbours:
            raise SecureSumError(f"round {work.round_id}: shares are of other devices than those that take part")
        self._store.save(dataclasses.replace(note, taking_part=told.taking_part, shares=told.shares))

    def upload(
        self,
        round_id: int,
        present: bytes | None,
        make: Callable[[Callable[[Words], Words]], bytes],
        noise: Callable[[int, bytes], Words] | None = None,
    ) -> bytes:
        """Return the bytes of the round's only upload; who calls puts them down, and notes them then.

        ``present``: what waits in the outbox. ``make`` gets a function that masks the device's numbers, with the
        ``noise`` that the fewest devices of a sum and a key give (``BoundedLayout.noise``), if any. Raises WorkError
        where it was made before and is gone: other numbers under the same masks would show the difference.
        """
        note = self._store.load()
        if note is None or note.round_id != round_id or not note.taking_part:
            raise SecureSumError(f"round {round_id}: this device has not agreed on masks")
        if note.upload:
            if present is None or digest(present) != note.upload:
                raise WorkError(f"round {round_id}: this device made its only upload before; it sits out this round")
            return present
        roster, secret = Roster(bytes.fromhex(note.context), note.members), self._secret(note)

        def mask(numbers: Words) -> Words:
            if noise is not None:
                numbers = numbers + noise(roster.fewest, secret.noise_key(roster))
            return secret.masked(roster, numbers, note.taking_part)

        return make(mask)

    def note_upload(self, data: bytes) -> None:
        """Note the upload that is in the outbox now."""
        note = self._store.load()
        assert note is not None
        self._store.save(dataclasses.replace(note, upload=digest(data)))

    def unmask(self, work: Work) -> RevealedShares:
        """Return one share of each device of the neighbourhood; which, is settled by the first question."""
        note, told = self._note(work), _told(work)
        roster, secret, own = _roster(note, told), self._secret(note), self._state.identity.load().device_id
        if not note.upload:
            raise SecureSumError(f"round {work.round_id}: this device has sent no numbers to unmask")
        if told.taking_part != note.taking_part:
            raise SecureSumError(f"round {work.round_id}: the server said before that others take part")
        if note.uploaded and note.uploaded != told.uploaded:
            raise SecureSumError(f"round {work.round_id}: the server said before that others had sent their numbers")
        roster.require_part(told.uploaded, "sent their numbers", within=note.taking_part)
        uploaded, holders = set(told.uploaded), roster.holders(own)
        few = len(uploaded.intersection(holders)) < roster.threshold(own) or len(uploaded) < roster.fewest
        if own not in uploaded or few:
            raise SecureSumError(f"round {work.round_id}: the sum of too few devices shows what single ones have")
        held = secret.opened(roster, note.shares) | {own: secret.own_shares(roster)[own]}
        self._store.save(dataclasses.replace(note, uploaded=told.uploaded))
        return RevealedShares(
            {device: shares.self_seed.hex() for device, shares in held.items() if device in uploaded},
            {device: shares.mask_key.hex() for device, shares in held.items() if device not in uploaded},
        )

    def end(self) -> None:
        """Remove the round's secret: nothing of it is asked for any more."""
        self._store.end()

    def end_others(self, work: Work) -> None:
        """Remove the secret of a round that is over, as other work shows."""
        note = self._store.load()
        if note is not None and (
            work.round_id > note.round_id or (work.round_id, work.kind) == (note.round_id, "learn")
        ):
            self._store.end()

    def _note(self, work: Work) -> PrivateRoundNote:
        note = self._store.load()
        if note is None or note.round_id < work.round_id:
            raise SecureSumError(f"round {work.round_id}: this device has sent no keys for it")
        _require_same_round(note, work)
        return note

    def _secret(self, note: PrivateRoundNote) -> RoundSecret:
        return RoundSecret(self._state.identity.load().device_id, bytes.fromhex(note.secret))


def _context(work: Work) -> bytes:
    return context_digest(work.round_id, work.plan, work.public_set, [info.class_id for info in work.classes])


def _told(work: Work) -> PrivateWork:
    if work.private is None:
        raise SecureSumError(f"round {work.round_id}: the server says nothing of this device's group")
    return work.private


def _roster(note: PrivateRoundNote, told: PrivateWork) -> Roster:
    if not note.members or told.members != note.members:
        raise SecureSumError(f"round {note.round_id}: the server named another group before, or none")
    return Roster(bytes.fromhex(note.context), note.members)


def _require_same_round(note: PrivateRoundNote, work: Work) -> None:
    if note.round_id > work.round_id:
        raise SecureSumError(f"round {work.round_id} is earlier than {note.round_id}, in which this device took part")
    if note.context != _context(work).hex():
        raise SecureSumError(f"round {work.round_id} was announced otherwise before: other settings, sounds or classes")
    if not note.secret:
        raise SecureSumError(f"round {work.round_id}: this device has answered all that it answers in a round")


def _require_plan(plan: RoundPlan, classes: int) -> None:
    if not is_available():
        raise SecureSumError("this device lacks the package cryptography (pip install 'auricle[private]')")
    if plan.private is None or not LEAST_GROUP <= plan.private.group_size <= LARGEST_GROUP:
        raise SecureSumError(f"a private round needs groups of {LEAST_GROUP} to {LARGEST_GROUP} devices")
    able = [name for name, method in local_methods().items() if method.summed]
    if plan.local.name not in able or plan.personalisation.name != "none":
        raise SecureSumError(f"only rounds of {', '.join(able)}, without personalisation, can be private")
    if plan.private.noise != 0:
        if plan.local.name != _WITH_NOISE:
            raise SecureSumError(f"only rounds of {_WITH_NOISE} can have noise, not those of {plan.local.name}")
        BoundedLayout.of(plan, classes, (1,))  # or its noise is none that there is
