"""Selects on rounds."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from aggregator_server.errors import RoundNotFoundError
from aggregator_server.rounds.states import COUNTS, IS_DONE, IS_OPEN, IS_OVER
from aggregator_server.store.tables import ParticipantRow, RoundRow

# Rounds with the whole fleet; the others are those of a group.
OF_FLEET = RoundRow.follows.is_(None)


def of_group(follows: int, index: int) -> ColumnElement[bool]:
    """Return the condition for the rounds of a group: the number of the fleet's round before them, and the group's."""
    return (RoundRow.follows == follows) & (RoundRow.group_index == index)


def require_round(session: Session, round_id: int) -> RoundRow:
    """Return a round's row.

    Raises:
        RoundNotFoundError: there is no such round.
    """
    row = session.get(RoundRow, round_id, with_for_update=True)
    if row is None:
        raise RoundNotFoundError(f"there is no round {round_id}; GET /v1/rounds lists them")
    return row


def open_round_id(session: Session) -> int | None:
    """Return the number of the open round."""
    return session.scalar(select(RoundRow.round_id).where(IS_OPEN))


def open_deadline(session: Session) -> float | None:
    """Return when the open round closes at the latest, in seconds since 1970; None where no round has a deadline."""
    return session.scalar(select(RoundRow.deadline_at).where(IS_OPEN))


def open_group_index(session: Session, follows: int) -> int | None:
    """Return the group whose round is open, among the groups that follow a round of the fleet."""
    return session.scalar(select(RoundRow.group_index).where(IS_OPEN, RoundRow.follows == follows))


def lock_open_round(session: Session) -> RoundRow | None:
    """Return the open round; in a writing session its row is locked."""
    return session.scalar(select(RoundRow).where(IS_OPEN).with_for_update())


def open_round_waiting_for(session: Session, device_id: str, now: float) -> RoundRow | None:
    """Return the open round where it waits for a device: selected, not uploaded, and the deadline has not passed."""
    return session.scalar(
        select(RoundRow)
        .join(ParticipantRow, ParticipantRow.round_id == RoundRow.round_id)
        .where(IS_OPEN, RoundRow.deadline_at > now)
        .where(ParticipantRow.device_id == device_id, ParticipantRow.upload.is_(None))
    )


def newest_done(session: Session, *conditions: ColumnElement[bool]) -> RoundRow | None:
    """Return the newest round that is done, was not undone, and meets the conditions."""
    done = select(RoundRow).where(COUNTS, *conditions)
    return session.scalar(done.order_by(RoundRow.round_id.desc()).limit(1))


def training_losses(session: Session, strategy: str) -> list[float | None]:
    """Return the training losses of a strategy's done rounds with the whole fleet, oldest first."""
    trained = RoundRow.operation.is_(None) & (RoundRow.strategy == strategy)
    done = select(RoundRow.training_loss).where(COUNTS, OF_FLEET, trained)
    return list(session.scalars(done.order_by(RoundRow.round_id)))


def current_consensus(session: Session) -> str | None:
    """Return the digest of the fleet's scores on the newest public set; None before the first round has ended."""
    newest = newest_done(session)
    return None if newest is None else newest.result_consensus


def current_prototypes(session: Session) -> str | None:
    """Return the digest of the fleet's prototypes; None before a round made some."""
    newest = newest_done(session)
    return None if newest is None else newest.result_prototypes


def count_group_rounds(session: Session, follows: int) -> int:
    """Return how many rounds of groups, in any state, follow a round of the fleet."""
    return session.scalar(select(func.count()).where(RoundRow.follows == follows)) or 0


def newest_with_uploads(session: Session, before: int | None = None) -> int | None:
    """Return the number of the newest round that is done, and has uploads.

    Args:
        session: any.
        before: only rounds with a smaller number.
    """
    uploaded = select(ParticipantRow.round_id).where(ParticipantRow.upload.is_not(None))
    found = select(func.max(RoundRow.round_id)).where(IS_DONE, RoundRow.round_id.in_(uploaded))
    return session.scalar(found if before is None else found.where(RoundRow.round_id < before))


def uploads_of_round(session: Session, round_id: int) -> dict[str, str]:
    """Return the digests of what was uploaded for a round, by device in order."""
    rows = select(ParticipantRow.device_id, ParticipantRow.upload).where(
        ParticipantRow.round_id == round_id, ParticipantRow.upload.is_not(None)
    )
    return {device_id: str(upload) for device_id, upload in session.execute(rows.order_by(ParticipantRow.device_id))}


def uploads_of_closed_rounds() -> Select[str | None]:
    """Return a select of the digests of what was uploaded for rounds that are over."""
    over = (ParticipantRow.round_id == RoundRow.round_id) & IS_OVER
    return select(ParticipantRow.upload).join(RoundRow, over).where(ParticipantRow.upload.is_not(None))
