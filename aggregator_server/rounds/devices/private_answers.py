"""What devices send for the stages of a private round, but the masked upload: checked, and kept once.

The same answer sent twice is one. An answer that others could not use is refused here, so that no device fails because
of another one's.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy.orm import Session

from aggregator_server.errors import MalformedUpdateError, RefusedError
from aggregator_server.fleet.classes import all_classes
from aggregator_server.fleet.reputation import is_quarantined
from aggregator_server.rounds.plan_rows import parsed_plan
from aggregator_server.rounds.private.group_rows import read_group, roster_of
from aggregator_server.rounds.queries import is_open, require_round, state_of
from aggregator_server.store.store import Store
from aggregator_server.store.tables import ParticipantRow, PrivatePartRow, PrivateRoundRow, RoundRow, SigningKeyRow
from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import EncryptedShares, Member, PrivateStage, RevealedShares, RoundKeys
from fleet_protocol.secure_sums.masking import require_revealed
from fleet_protocol.secure_sums.primitives import agree
from fleet_protocol.secure_sums.roster import context_digest, require_signed

Answer = RoundKeys | EncryptedShares | RevealedShares
_KEY, _SIGNATURE, _SHARES = 64, 128, 160  # hex digits
_HEX = re.compile(r"[0-9a-f]*")


def take_answer(store: Store, round_id: int, device_id: str, answer: Answer, now: float) -> None:
    """Keep a device's answer in a stage, which holds once flushed.

    Raises RoundNotFoundError: there is no such round. RefusedError: it is over, not the device's, in another stage, or
    has another answer of the device. MalformedUpdateError: the answer cannot be used; says why.
    """
    stage, add = _STAGES[type(answer)]
    with store.writing(durable=False, of_one=True) as session:
        row = require_round(session, round_id)
        part = session.get(PrivatePartRow, (round_id, device_id))
        if part is not None and (known := _known(part, stage)) is not None:
            if known == asdict(answer):
                return
            raise RefusedError(
                "duplicate_update", f"device {device_id} sent other {stage} for round {round_id} before; those stand"
            )
        _require_stage(session, row, device_id, stage, now)
        add(session, row, device_id, part, answer)


def _require_stage(session: Session, row: RoundRow, device_id: str, stage: PrivateStage, now: float) -> None:
    if session.get(ParticipantRow, (row.round_id, device_id)) is None or is_quarantined(session, device_id):
        raise RefusedError(
            "not_selected",
            f"device {device_id} does not take part in round {row.round_id}; GET /v1/work says what to do",
        )
    if not is_open(row) or now >= float(row.deadline_at or 0.0):
        raise RefusedError("round_closed", f"round {row.round_id} is {state_of(row)}, or its deadline passed")
    progress = session.get(PrivateRoundRow, row.round_id)
    present = "not private" if progress is None else f"in its stage {progress.stage!r}"
    if progress is None or progress.stage != stage:
        raise RefusedError(
            "stage_over", f"round {row.round_id} is {present} and takes no {stage}; GET /v1/work says what to do"
        )


def _known(part: PrivatePartRow, stage: PrivateStage) -> dict[str, Any] | None:
    if stage == "keys":
        return {name: value for name, value in part.keys.items() if name != "signing_key"}
    return part.shares if stage == "shares" else part.revealed


def _add_keys(session: Session, row: RoundRow, device_id: str, _part: object, keys: RoundKeys) -> None:
    _require_hex("mask_key", keys.mask_key, _KEY)
    _require_hex("share_key", keys.share_key, _KEY)
    _require_hex("signature", keys.signature, _SIGNATURE)
    known = session.get(SigningKeyRow, device_id)
    if known is None:
        raise MalformedUpdateError(f"device {device_id} has told no signing_key; it enrols again with one")
    member = Member(device_id, known.key, **asdict(keys))
    class_ids = tuple(info.class_id for info in all_classes(session))
    try:
        require_signed(member, context_digest(row.round_id, parsed_plan(row.plan), row.public_set, class_ids))
        for key in (keys.mask_key, keys.share_key):
            agree(secrets.token_bytes(32), key, b"")  # others could agree on nothing with a key of small order
    except SecureSumError as error:
        raise MalformedUpdateError(str(error)) from error
    kept = asdict(member)
    del kept["device_id"]
    session.add(PrivatePartRow(round_id=row.round_id, device_id=device_id, keys=kept))


def _add_shares(
    session: Session, row: RoundRow, device_id: str, part: PrivatePartRow | None, sent: EncryptedShares
) -> None:
    index = _group_of(row, part, device_id)
    roster = roster_of(session, row, read_group(session, row.round_id, index).members)
    if sent.roster != roster.digest.hex():
        raise MalformedUpdateError("'roster' is not the digest of the device's group; GET /v1/work has its members")
    _require_hex("commitment", sent.commitment, _KEY)
    _require_shares(sent.shares, set(roster.neighbours(device_id)))
    assert part is not None
    part.shares = asdict(sent)


def _add_revealed(
    session: Session, row: RoundRow, device_id: str, part: PrivatePartRow | None, sent: RevealedShares
) -> None:
    group = read_group(session, row.round_id, _group_of(row, part, device_id))
    if device_id not in group.uploaded:
        raise RefusedError("stage_over", f"device {device_id} uploaded nothing for round {row.round_id} in time")
    roster = roster_of(session, row, group.members)
    try:
        require_revealed(roster, device_id, group.taking_part, group.uploaded, sent)
    except SecureSumError as error:
        raise MalformedUpdateError(str(error)) from error
    assert part is not None
    part.revealed = asdict(sent)


_STAGES: dict[type, tuple[PrivateStage, Callable[[Session, RoundRow, str, PrivatePartRow | None, Any], None]]] = {
    RoundKeys: ("keys", _add_keys),
    EncryptedShares: ("shares", _add_shares),
    RevealedShares: ("unmask", _add_revealed),
}


def _group_of(row: RoundRow, part: PrivatePartRow | None, device_id: str) -> int:
    if part is None or part.group_index is None or part.dropped:
        raise RefusedError("stage_over", f"device {device_id} is out of round {row.round_id}: it missed a stage")
    return part.group_index


def _require_shares(given: Mapping[str, str], wanted: Collection[str]) -> None:
    """Check whom shares are for. Raises MalformedUpdateError: one is missing, too many, or no share."""
    if differing := sorted(set(given) ^ set(wanted)):
        why = "is missing" if differing[0] in wanted else "does not belong there"
        raise MalformedUpdateError(f"'shares': {differing[0][:80]!r} {why}; expected are {len(wanted)} devices")
    for device_id, share in given.items():
        _require_hex(f"shares[{device_id}]", share, _SHARES)


def _require_hex(field: str, given: str, digits: int) -> None:
    if len(given) != digits or not _HEX.fullmatch(given):
        raise MalformedUpdateError(f"{field} must be {digits} lower-case hex digits, not {given[:80]!r}")
