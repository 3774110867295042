"""The stages of a private round: how it goes from one to the next, and which groups go on.

A stage ends when every device that it waits for has answered, which is asked after each answer, or when its share of
the round's time has passed. A step reads rows and writes rows, in one transaction: whoever is killed within it has
changed nothing.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, delete, exists, func, select, update
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import PrivateGroup
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.rounds.private.dealing import deal_groups
from aggregator_server.rounds.private.group_rows import read_groups, roster_of
from aggregator_server.schemas import PrivateGroupInfo, PrivateInfo
from aggregator_server.store.tables import DEVICES, PARTICIPANTS, PARTS, PrivatePartRow, PrivateRoundRow, RoundRow
from fleet_protocol.messages.private_rounds import PrivateStage
from fleet_protocol.messages.rest import RoundPlan
from fleet_protocol.secure_sums.privacy_budget import epsilon_of, spent_by
from fleet_protocol.secure_sums.roster import Roster

_NEXT: dict[PrivateStage, PrivateStage] = {"keys": "shares", "shares": "contribute", "contribute": "unmask"}
LAST: PrivateStage = "unmask"
_SHARE_OF_TIME: dict[PrivateStage, float] = {"keys": 1 / 4, "shares": 1 / 2, "contribute": 7 / 8, "unmask": 1.0}

_TAKING_PART = (
    PARTICIPANTS.outerjoin(
        PARTS, (PARTS.c.round_id == PARTICIPANTS.c.round_id) & (PARTS.c.device_id == PARTICIPANTS.c.device_id)
    )
).join(DEVICES, DEVICES.c.device_id == PARTICIPANTS.c.device_id)
_STANDS = PARTS.c.group_index.is_not(None) & PARTS.c.dropped.is_(False)


def _asks(condition: ColumnElement[bool]) -> Select[tuple[bool]]:
    """Return a query that tells whether a device of the round that may take part meets a condition."""
    may = DEVICES.c.revoked_at.is_(None) & DEVICES.c.device_id.not_in(QUARANTINED)
    of_round = PARTICIPANTS.c.round_id == bindparam("of_round")
    return select(exists().select_from(_TAKING_PART).where(of_round, may, condition))


_MISSING: dict[PrivateStage, Select[tuple[bool]]] = {
    "keys": _asks(PARTS.c.device_id.is_(None)),
    "shares": _asks(_STANDS & PARTS.c.shares.is_(None)),
    "contribute": _asks(_STANDS & PARTS.c.shares.is_not(None) & PARTICIPANTS.c.upload.is_(None)),
    "unmask": _asks(_STANDS & PARTICIPANTS.c.upload.is_not(None) & PARTS.c.revealed.is_(None)),
}


_ANSWERS: dict[PrivateStage, ColumnElement[bool]] = {
    "keys": PARTS.c.device_id.is_not(None),
    "shares": PARTS.c.shares.is_not(None),
    "contribute": PARTICIPANTS.c.upload.is_not(None),
    "unmask": PARTS.c.revealed.is_not(None),
}


def begin(session: Session, row: RoundRow) -> None:
    """Put a round that was just opened into its first stage."""
    session.add(PrivateRoundRow(round_id=row.round_id, stage="keys", ends_at=_ends_at(row, "keys"), dropped={}))


def move(session: Session, row: RoundRow) -> str | None:
    """Put the open round, whose stage is over and not the last, into the next; or return why it ends here."""
    progress = session.get_one(PrivateRoundRow, row.round_id)
    stage = progress.stage
    reason = deal_groups(session, row) if stage == "keys" else _drop(session, row, progress)
    progress.stage = _NEXT[stage]
    progress.ends_at = _ends_at(row, progress.stage)
    return reason


def forget(session: Session, round_id: int) -> None:
    """Remove what devices sent for the stages of a round that ends."""
    for kind in (PrivatePartRow, PrivateRoundRow):
        session.execute(delete(kind).where(kind.round_id == round_id))


def _ends_at(row: RoundRow, stage: PrivateStage) -> float:
    deadline = float(row.deadline_at or 0.0)  # an open round has one
    return row.opened_at + _SHARE_OF_TIME[stage] * (deadline - row.opened_at)


def _drop(session: Session, row: RoundRow, progress: PrivateRoundRow) -> str | None:
    """Drop the groups whose secrets could not be put together any more; return why none is left, if none is."""
    found, dropped = read_groups(session, row.round_id), dict(progress.dropped)
    for group in found:
        present = group.taking_part if progress.stage == "shares" else group.uploaded
        if group.dropped is None and _lacks_holders(roster_of(session, row, group.members), group, present):
            what = "sent shares" if progress.stage == "shares" else "uploaded"
            dropped[str(group.index)] = f"{len(present)} of {len(group.members)} devices {what}"
            gone = (PrivatePartRow.round_id == row.round_id) & (PrivatePartRow.group_index == group.index)
            session.execute(update(PrivatePartRow).where(gone).values(dropped=True))
    progress.dropped = dropped
    if len(dropped) < len(found):
        return None
    reasons = "; ".join(f"group {int(index) + 1}: {why}" for index, why in sorted(dropped.items())[:8])
    return f"too many devices were lost for any group's sum ({reasons})"


def _lacks_holders(roster: Roster, group: PrivateGroup, present: Collection[str]) -> bool:
    """Tell whether fewer are present than its sum needs, or of a secret's holders than can put it together."""
    there = set(present)
    return len(there) < roster.fewest or any(
        len(there.intersection(roster.holders(device_id))) < roster.threshold(device_id)
        for device_id in group.taking_part
    )


def _count_answers(session: Session, round_id: int, stage: PrivateStage) -> int:
    counted = select(func.count()).select_from(_TAKING_PART)
    return session.scalar(counted.where(PARTICIPANTS.c.round_id == round_id, _ANSWERS[stage])) or 0


def lacks_answers(session: Session, round_id: int, stage: PrivateStage) -> bool:
    """Tell whether a device has yet to answer in a stage."""
    return bool(session.scalar(_MISSING[stage], {"of_round": round_id}))


def private_info(session: Session, plan: RoundPlan, round_id: int, details: Mapping[str, Any]) -> PrivateInfo | None:
    """Return how a private round stands; None of another one. ``details``: those of the round's row."""
    if plan.private is None:
        return None
    size, progress = plan.private.group_size, session.get(PrivateRoundRow, round_id)
    epsilon = epsilon_of(spent_by(plan.private.noise)) if plan.private.noise else None
    if progress is None:
        over = tuple(
            PrivateGroupInfo(devices=tuple(group["devices"]), outcome=group["outcome"])
            for group in details.get("private_groups", ())
        )
        return PrivateInfo(group_size=size, epsilon=epsilon, stage=None, ends_at=None, answered=0, groups=over)
    groups = tuple(
        PrivateGroupInfo(devices=tuple(member.device_id for member in group.members), outcome=group.dropped or "")
        for group in read_groups(session, round_id)
    )
    return PrivateInfo(
        group_size=size,
        epsilon=epsilon,
        stage=progress.stage,
        ends_at=datetime.fromtimestamp(progress.ends_at, UTC),
        answered=_count_answers(session, round_id, progress.stage),
        groups=groups,
    )
