"""Continuous rounds: an upload is merged when it arrives, without deadline or quorum.

A round of such a series closes with the first upload, by the same step as any other, and its schedule opens the next
one in the transaction that closes it (rounds/schedules.py). So every upload has a result.
"""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.rounds.queries import lock_open_round
from aggregator_server.rounds.states import is_merging, is_open
from aggregator_server.store.tables import AssignmentRow, LearnedRow, ParticipantRow, RoundRow

# The columns that tell devices something.
_RESULTS = ("result_public_set", "result_consensus", "result_prototypes")


def present_round(session: Session, row: RoundRow) -> RoundRow:
    """Return the open round of a round's series, which takes the uploads that were meant for a former one."""
    if not is_merging(row) or is_open(row):
        return row
    current = lock_open_round(session)
    return current if current is not None and current.schedule_id == row.schedule_id else row


def is_due(session: Session, row: RoundRow, device_id: str, now: float) -> bool:
    """Tell whether a device may contribute to the open round of a series: its last upload is long enough ago."""
    last = session.scalar(
        select(func.max(ParticipantRow.uploaded_at))
        .join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
        .where(ParticipantRow.device_id == device_id, RoundRow.schedule_id == row.schedule_id)
    )
    return last is None or not 0 <= now - last < parsed_plan(row.plan).every_s


def has_learned_as_much(session: Session, row: RoundRow, device_id: str) -> bool:
    """Tell whether a round of a series told a device nothing that a former round had not."""
    if not is_merging(row):
        return False
    last = session.scalar(
        select(RoundRow)
        .join(LearnedRow, LearnedRow.round_id == RoundRow.round_id)
        .where(LearnedRow.device_id == device_id)
        .order_by(RoundRow.round_id.desc())
        .limit(1)
    )
    if last is None or any(getattr(last, name) != getattr(row, name) for name in _RESULTS):
        return False
    pending = AssignmentRow.acknowledged.is_(False) & (AssignmentRow.device_id == device_id)
    return session.scalar(select(AssignmentRow.slot).where(pending).limit(1)) is None
