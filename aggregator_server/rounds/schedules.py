"""Schedules: rounds that open by themselves, every day at a time, every so many hours, or one after the other.

A schedule stands beside its rounds. Whoever closes a round opens the one that is due in the same transaction; where no
round is open, an idempotent step of the clock does. Each also notes when the next one is due, so a schedule survives
any crash, and a time that passed while the server was off, or another round was open, is made up once.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, ScheduleNotFoundError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.limits import SCHEDULES
from aggregator_server.rounds.candidates import write_seen
from aggregator_server.rounds.opening import open_requested, requested_plan
from aggregator_server.rounds.queries import OPEN_ROUND, lock_open_round, open_round_id
from aggregator_server.rounds.retention import remove_uploads
from aggregator_server.rounds.states import is_merging, mark_failed
from aggregator_server.rounds.timetable import check_times, first_time, is_continuous, next_time
from aggregator_server.schemas import RoundRequest, ScheduleInfo, ScheduleRequest, moment
from aggregator_server.store import Store
from aggregator_server.store.tables import RoundRow, ScheduleRow
from fleet_protocol.messages import parse

_log = logging.getLogger(__name__)
_GOES_ON = ScheduleRow.ended_at.is_(None)
_NEXT = select(func.min(ScheduleRow.next_at)).where(_GOES_ON, ~OPEN_ROUND.exists())
# Times of the clock come before rounds that follow each other, which would never let them have a turn.
_BY_TURN = (
    ScheduleRow.daily_at.is_(None) & ScheduleRow.interval_s.is_(None),
    ScheduleRow.next_at,
    ScheduleRow.schedule_id,
)
_PROBLEM_LENGTH = 1_000


def add_schedule(store: Store, wanted: ScheduleRequest, now: float, by: Actor = SERVER) -> ScheduleInfo:
    """Add a schedule, and open its first round where that is due and no other is open.

    Raises:
        InvalidRequestError: it does not say in one way when rounds open, or there are as many as there may be.
        UnknownStrategyError, InvalidPlanError: no round can be as it asks.
        ModelReplacedError: its rounds would replace devices' own models, and it does not say so.
    """
    check_times(wanted)
    write_seen(store)
    with store.writing() as session:
        requested_plan(session, wanted.round)
        row = insert_schedule(session, wanted, first_time(wanted, now), now, by)
        open_due(session, now)
        return _info(*session.execute(_infos().where(ScheduleRow.schedule_id == row.schedule_id)).one())


def insert_schedule(session: Session, wanted: ScheduleRequest, next_at: float, now: float, by: Actor) -> ScheduleRow:
    """Insert a schedule whose next round is due at a time.

    Raises:
        InvalidRequestError: there are as many as there may be.
    """
    if (session.scalar(select(func.count()).where(_GOES_ON)) or 0) >= SCHEDULES:
        raise InvalidRequestError(f"there are {SCHEDULES} schedules, and may be no more; end one first")
    row = ScheduleRow(
        request=asdict(wanted.round),
        daily_at=wanted.daily_at,
        zone=wanted.zone,
        interval_s=wanted.interval_s,
        made_at=now,
        next_at=next_at,
    )
    session.add(row)
    session.flush()
    audit(session, "schedule_made", by, now, schedule_id=row.schedule_id, strategy=wanted.round.strategy)
    return row


def end_schedule(store: Store, schedule_id: int, now: float, by: Actor = SERVER) -> None:
    """Open no more rounds by a schedule. Its open round goes on to its end; one that waits for any upload ends.

    Raises:
        ScheduleNotFoundError: there is no such schedule, or it has ended.
    """
    with store.writing() as session:
        row = session.get(ScheduleRow, schedule_id)
        if row is None or row.ended_at is not None:
            raise ScheduleNotFoundError(f"there is no schedule {schedule_id}; GET /v1/schedules lists them")
        open_round = lock_open_round(session)
        ended = None
        if open_round is not None and open_round.schedule_id == schedule_id and is_merging(open_round):
            ended = open_round.round_id
            mark_failed(session, ended, now, "its schedule was ended")
            audit(session, "round_cancelled", by, now, round_id=ended)
        note_end(session, row, now, by)
    if ended is not None:
        remove_uploads(store, ended)


def end_with_round(session: Session, round_row: RoundRow, now: float, by: Actor) -> None:
    """End the schedule of a round that was cancelled, where the next one would follow at once."""
    row = None if round_row.schedule_id is None else session.get_one(ScheduleRow, round_row.schedule_id)
    if row is not None and row.ended_at is None and is_continuous(row):
        note_end(session, row, now, by)


def note_end(session: Session, row: ScheduleRow, now: float, by: Actor) -> None:
    """End a schedule."""
    row.ended_at = now
    audit(session, "schedule_ended", by, now, schedule_id=row.schedule_id)


def list_schedules(store: Store) -> tuple[ScheduleInfo, ...]:
    """Return the schedules that go on, oldest first."""
    with store.reading() as session:
        found = session.execute(_infos().where(_GOES_ON).order_by(ScheduleRow.schedule_id))
        return tuple(_info(*row) for row in found)


def next_opening(session: Session) -> float | None:
    """Return when the next round of a schedule is due, in seconds since 1970; None while a round is open."""
    return session.scalar(_NEXT)


def open_scheduled(store: Store, now: float) -> int | None:
    """Open the round of a schedule whose time has come; return its number. Any process may call it at any time."""
    write_seen(store)
    with store.writing() as session:
        return open_due(session, now)


def open_due(session: Session, now: float) -> int | None:
    """Open the round of a schedule whose time has come, where no round is open; return its number.

    A schedule whose round cannot be opened says why, and is tried again at its next time.

    Args:
        session: a writing one.
        now: seconds since 1970.
    """
    if open_round_id(session) is not None:
        return None
    due = select(ScheduleRow).where(_GOES_ON, ScheduleRow.next_at <= now).order_by(*_BY_TURN)
    for row in session.scalars(due).all():
        opened, row.problem = _open(session, row, now)
        row.next_at = next_time(row, now, opened=opened is not None)
        session.flush()
        if opened is not None:
            return opened
    return None


def _open(session: Session, row: ScheduleRow, now: float) -> tuple[int | None, str | None]:
    """Return (the number of a schedule's round that is open now, why there is none)."""
    try:
        with session.begin_nested():
            opened = open_requested(session, parse(RoundRequest, row.request), now, row.schedule_id)
    except (SQLAlchemyError, OSError, MemoryError):
        raise
    except Exception as error:  # a request's or a package's fault must not keep the round before from closing
        _log.warning("schedule %d opens no round: %s", row.schedule_id, error)
        return None, (str(error) or type(error).__name__)[:_PROBLEM_LENGTH]
    if not is_merging(opened):  # else every upload would be a row of the audit
        number, strategy = opened.round_id, opened.strategy
        audit(session, "round_opened", SERVER, now, round_id=number, strategy=strategy, schedule_id=row.schedule_id)
    return opened.round_id, None


def _infos() -> Any:  # noqa: ANN401  (a select's type names each column)
    last = select(func.max(RoundRow.round_id)).where(RoundRow.schedule_id == ScheduleRow.schedule_id)
    return select(ScheduleRow, last.scalar_subquery().label("last_round"))


def _info(row: ScheduleRow, last_round: int | None) -> ScheduleInfo:
    continuous = is_continuous(row)
    return ScheduleInfo(
        schedule_id=row.schedule_id,
        round=parse(RoundRequest, row.request),
        daily_at=row.daily_at,
        zone=row.zone,
        interval_s=row.interval_s,
        continuous=continuous,
        made_at=moment(row.made_at),
        next_at=None if continuous and row.problem is None else moment(row.next_at),
        last_round=last_round,
        problem=row.problem,
    )
