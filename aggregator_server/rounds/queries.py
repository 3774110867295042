"""Rounds by state, and selects on them.

    open -> done | failed(reason)

A round is inserted open (rounds/opening.py), or done where an operator made its result
(operator_changes/restore_and_undo.py). No other module compares states or changes them.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, ScalarSelect, exists, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from aggregator_server.errors import RefusedError, RoundNotFoundError
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.rounds.private.stages import LAST, forget, lacks_answers
from aggregator_server.store.tables import (
    DEVICES,
    DONE,
    FAILED,
    OPEN,
    PARTICIPANTS,
    ROUNDS,
    STAGES,
    DeviceRow,
    OperationRow,
    ParticipantRow,
    RoundRow,
)

_IS_DONE = RoundRow.state == DONE
COUNTS = _IS_DONE & RoundRow.undone_by.is_(None)  # not undone by an operator
# Rounds whose results are the fleet's; the others are those of a group.
OF_FLEET = RoundRow.follows.is_(None)
# Rounds that devices worked for; the others have the result of an operator's operation.
WITH_DEVICES = RoundRow.round_id.not_in(select(OperationRow.round_id))

_IS_OPEN = ROUNDS.c.state == OPEN  # for statements on tables
_ACTIVE = (
    (PARTICIPANTS.c.round_id == ROUNDS.c.round_id)
    & (PARTICIPANTS.c.device_id == DEVICES.c.device_id)
    & DEVICES.c.revoked_at.is_(None)
    & DEVICES.c.device_id.not_in(QUARANTINED)
)
_REASON_LENGTH = 1_000
_CANCELLED = "cancelled by "
IS_CANCELLED = (RoundRow.state == FAILED) & RoundRow.reason.startswith(_CANCELLED)
"""Whether an operator ended a round without a result. It is kept, and told to older programs, as one that failed."""
T = TypeVar("T")
_WAITING = (
    select(
        ROUNDS.c.round_id,
        ROUNDS.c.deadline_at,
        exists().where(_ACTIVE, PARTICIPANTS.c.upload.is_(None)).label("missing"),
        STAGES.c.stage,
        STAGES.c.ends_at,
    )
    .select_from(ROUNDS.outerjoin(STAGES, STAGES.c.round_id == ROUNDS.c.round_id))
    .where(_IS_OPEN)
)
# The digests of what was uploaded for rounds that are over.
UPLOADS_OF_CLOSED_ROUNDS = (
    select(ParticipantRow.upload)
    .join(RoundRow, (ParticipantRow.round_id == RoundRow.round_id) & (RoundRow.state != OPEN))
    .where(ParticipantRow.upload.is_not(None))
)
OPEN_ROUND = select(ROUNDS.c.round_id).where(_IS_OPEN)  # the number of the open round


def is_open(row: RoundRow) -> bool:
    """Tell whether a round still takes uploads, its deadline aside."""
    return row.state == OPEN


def is_done(row: RoundRow) -> bool:
    """Tell whether a round has a result."""
    return row.state == DONE


def mark_done(session: Session, round_id: int, now: float, result: dict[str, Any]) -> None:
    """End a round with a result; what devices sent for the stages of a private one is removed."""
    forget(session, round_id)
    session.execute(update(RoundRow).where(RoundRow.round_id == round_id).values(**result, state=DONE, closed_at=now))


def mark_failed(session: Session, round_id: int, now: float, reason: str) -> None:
    """End a round without a result; the reason is for people."""
    forget(session, round_id)
    failed = {"state": FAILED, "closed_at": now, "reason": reason[:_REASON_LENGTH]}
    session.execute(update(RoundRow).where(RoundRow.round_id == round_id).values(**failed))


def mark_cancelled(session: Session, round_id: int, now: float, who: str) -> None:
    """End a round as an operator wants it; ``who``: the operator's name."""
    mark_failed(session, round_id, now, f"{_CANCELLED}{who}")


def state_of(row: Any) -> str:  # noqa: ANN401  (has a round's state and reason)
    """Return how a round stands, as people read it."""
    return "cancelled" if row.state == FAILED and (row.reason or "").startswith(_CANCELLED) else str(row.state)


def of_group(follows: int, index: int) -> ColumnElement[bool]:
    """Return the condition for the rounds of a group: the number of the fleet's round before them, and the group's."""
    return (RoundRow.follows == follows) & (RoundRow.group_index == index)


def require_round(session: Session, round_id: int) -> RoundRow:
    """Return a round's row. Raises RoundNotFoundError: there is no such round."""
    row = session.get(RoundRow, round_id)
    if row is None:
        raise no_such_round(round_id)
    return row


def no_such_round(round_id: int) -> RoundNotFoundError:
    """Return what is raised where a round does not exist."""
    return RoundNotFoundError(f"there is no round {round_id}; GET /v1/rounds lists them")


def read_waiting(session: Session, now: float) -> tuple[bool, float | None]:
    """Return (whether the open round need not wait any longer, when it closes at the latest).

    Of a private round that is said of its stage. The former as ``quorum.may_end`` says it, but at the cost of one
    lookup: a server asks after every upload. The latter in seconds since 1970; None where no round is open.
    """
    found: Any = session.execute(_WAITING).first()
    if found is None:
        return False, None
    if found.stage is not None:
        missing = lacks_answers(session, found.round_id, found.stage)
        return not missing or now >= found.ends_at, found.ends_at
    return not found.missing or now >= found.deadline_at, found.deadline_at


def stage_due(session: Session, now: float) -> int | None:
    """Return the number of the open private round where its stage is over, and not the last."""
    found: Any = session.execute(_WAITING).first()
    if found is None or found.stage in (None, LAST):
        return None
    is_over = now >= found.ends_at or not lacks_answers(session, found.round_id, found.stage)
    return int(found.round_id) if is_over else None


def open_round_id(session: Session) -> int | None:
    """Return the number of the open round."""
    found: int | None = session.execute(OPEN_ROUND).scalar()
    return found


def open_group_index(session: Session, follows: int) -> int | None:
    """Return the group whose round is open, among the groups that follow a round of the fleet."""
    return session.scalar(select(RoundRow.group_index).where(RoundRow.state == OPEN, RoundRow.follows == follows))


def lock_open_round(session: Session) -> RoundRow | None:
    """Return the open round; in a writing session its row is locked."""
    return session.scalar(select(RoundRow).where(RoundRow.state == OPEN))


def require_no_open_round(session: Session, way_out: str) -> None:
    """Check that no round is open; ``way_out`` has {} for its number. Raises RefusedError: one is."""
    row = lock_open_round(session)
    if row is not None:
        raise RefusedError("round_open", f"round {row.round_id} is open{way_out.format(row.round_id)}")


def newest_of_fleet() -> ScalarSelect[int]:
    """Return a select of the number of the newest round of the whole fleet that is done and was not undone."""
    found = select(ROUNDS.c.round_id).where(
        ROUNDS.c.state == DONE, ROUNDS.c.undone_by.is_(None), ROUNDS.c.follows.is_(None)
    )
    return found.order_by(ROUNDS.c.round_id.desc()).limit(1).scalar_subquery()


def newest_done(session: Session, *conditions: ColumnElement[bool]) -> RoundRow | None:
    """Return the newest round that is done, was not undone, and meets the conditions."""
    done = select(RoundRow).where(COUNTS, *conditions)
    return session.scalar(done.order_by(RoundRow.round_id.desc()).limit(1))


def newest_with_model(session: Session, version: int) -> RoundRow | None:
    """Return the newest done round of the whole fleet that trained a version of the shared model."""
    return newest_done(session, OF_FLEET, RoundRow.model_version == version)


def of_uploads(session: Session, round_id: int, column: InstrumentedAttribute[T]) -> Sequence[T]:
    """Return a column of a round's uploads, by device; without those of devices that were revoked or quarantined."""
    found = select(column).join(DeviceRow, DeviceRow.device_id == ParticipantRow.device_id)
    found = found.where(ParticipantRow.round_id == round_id, ParticipantRow.upload.is_not(None))
    trusted = DeviceRow.revoked_at.is_(None) & DeviceRow.device_id.not_in(QUARANTINED)
    return session.scalars(found.where(trusted).order_by(ParticipantRow.device_id)).all()


def training_loss(session: Session, round_id: int) -> float | None:
    """Return the median of the training losses that a round's devices uploaded: no single device can move it far."""
    reported = of_uploads(session, round_id, ParticipantRow.metrics)
    losses = [float(metrics["training_loss"]) for metrics in reported if "training_loss" in metrics]
    return median(losses) if losses else None
