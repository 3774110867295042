"""The groups of a private round as its rows have them, and what a stage asks of a device of one."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.contract import PrivateGroup
from aggregator_server.fleet.classes import all_classes
from aggregator_server.rounds.plan_rows import parsed_plan
from aggregator_server.store.tables import PARTICIPANTS, PARTS, PrivatePartRow, PrivateRoundRow, RoundRow
from fleet_protocol.messages.private_rounds import Member, PrivateStage, PrivateWork, RevealedShares
from fleet_protocol.messages.rest import Work
from fleet_protocol.secure_sums.roster import Roster, context_digest

_DEALT = (
    select(PARTS, PARTICIPANTS.c.upload.is_not(None).label("has_uploaded"))
    .join(PARTICIPANTS, (PARTICIPANTS.c.round_id == PARTS.c.round_id) & (PARTICIPANTS.c.device_id == PARTS.c.device_id))
    .order_by(PARTS.c.group_index, PARTS.c.place)
)


def read_group(session: Session, round_id: int, index: int) -> PrivateGroup:
    """Return a group that there is."""
    found = session.execute(_DEALT.where(PARTS.c.round_id == round_id, PARTS.c.group_index == index)).all()
    return _group(index, found, _dropped(session, round_id))


def read_groups(session: Session, round_id: int) -> tuple[PrivateGroup, ...]:
    """Return all groups of a round; none before the deal and in a round that is not private."""
    by_index: dict[int, list[Any]] = defaultdict(list)
    for row in session.execute(_DEALT.where(PARTS.c.round_id == round_id, PARTS.c.group_index.is_not(None))):
        by_index[row.group_index].append(row)
    dropped = _dropped(session, round_id)
    return tuple(_group(index, rows, dropped) for index, rows in by_index.items())


def roster_of(session: Session, row: RoundRow, members: tuple[Member, ...]) -> Roster:
    """Return a group's roster, as its devices compute it too."""
    class_ids = tuple(info.class_id for info in all_classes(session))
    return Roster(context_digest(row.round_id, parsed_plan(row.plan), row.public_set, class_ids), members)


def _dropped(session: Session, round_id: int) -> dict[str, str]:
    progress = session.get(PrivateRoundRow, round_id)
    return {} if progress is None else progress.dropped


def _group(index: int, rows: Any, dropped: dict[str, str]) -> PrivateGroup:  # noqa: ANN401  (rows of _DEALT)
    sharing = [row for row in rows if row.shares is not None]
    return PrivateGroup(
        index=index,
        members=tuple(Member(row.device_id, **row.keys) for row in rows),
        shares={row.device_id: row.shares["shares"] for row in sharing},
        commitments={row.device_id: row.shares["commitment"] for row in sharing},
        uploaded=tuple(row.device_id for row in sharing if row.has_uploaded),
        revealed={row.device_id: RevealedShares(**row.revealed) for row in rows if row.revealed is not None},
        dropped=dropped.get(str(index)),
    )


def private_work(
    session: Session, work: Work, stage: PrivateStage, device_id: str, *, has_uploaded: bool
) -> Work | None:
    """Return a device's work for a stage; None where it has answered, or is out of the round.

    ``work``: what all devices get of it.
    """
    part = session.get(PrivatePartRow, (work.round_id, device_id))
    if stage == "keys":
        return replace(work, kind="keys", private=PrivateWork()) if part is None else None
    if part is None or part.group_index is None or part.dropped:
        return None
    is_due = {
        "shares": part.shares is None,
        "contribute": part.shares is not None and not has_uploaded,
        "unmask": has_uploaded and part.revealed is None,
    }
    if not is_due[stage]:
        return None
    group = read_group(session, work.round_id, part.group_index)
    return replace(work, kind=stage, private=_of_stage(group, stage, device_id))


def _of_stage(group: PrivateGroup, stage: PrivateStage, device_id: str) -> PrivateWork:
    if stage == "shares":
        return PrivateWork(members=group.members)
    if stage == "contribute":
        own = {sender: shares[device_id] for sender, shares in group.shares.items() if device_id in shares}
        return PrivateWork(members=group.members, taking_part=group.taking_part, shares=own)
    return PrivateWork(members=group.members, taking_part=group.taking_part, uploaded=group.uploaded)
