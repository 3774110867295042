"""Schedules: rounds that open by themselves, every day at a time, every so many hours, or one after the other.

A schedule stands beside its rounds. Whoever closes a round opens the one that is due in the same transaction; where no
round is open, an idempotent step of the clock does. Each also notes when the next one is due, so a schedule survives
any crash, and a time that passed while the server was off, or another round was open, is made up once.
"""

import logging
import re
from dataclasses import asdict
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, ScheduleNotFoundError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.limits import SCHEDULES
from aggregator_server.rounds.opening import open_requested, requested_plan
from aggregator_server.rounds.queries import OPEN_ROUND, lock_open_round, open_round_id, write_seen
from aggregator_server.rounds.retention import remove_uploads
from aggregator_server.rounds.states import is_merging, mark_failed
from aggregator_server.schemas import RoundRequest, ScheduleInfo, ScheduleRequest, moment, reply
from aggregator_server.store import Store
from aggregator_server.store.tables import RoundRow, ScheduleRow
from fleet_protocol.messages import CONTINUOUS, parse

RETRY_S = 60.0  # after which a round that could not open is tried again, where no time of day says when
_SHORTEST_S, _LONGEST_S = 60.0, 366 * 86_400.0
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


def check_times(wanted: ScheduleRequest) -> None:
    """Check that a request says in one way when rounds open.

    Raises:
        InvalidRequestError: it says it in none or two ways, or the time, the zone or the interval is none.
    """
    given = [wanted.daily_at is not None, wanted.interval_s is not None, wanted.continuous]
    if sum(given) != 1:
        raise InvalidRequestError(
            'a schedule needs one of daily_at ("03:00"), interval_s (21600) and continuous (true)'
        )
    if wanted.daily_at is not None and not _TIME.fullmatch(wanted.daily_at):
        raise InvalidRequestError(f'daily_at is a time of day such as "03:00", not {wanted.daily_at[:20]!r}')
    if wanted.zone is not None and wanted.daily_at is None:
        raise InvalidRequestError("zone belongs to daily_at; leave it out")
    if wanted.zone is not None and wanted.zone not in available_timezones():
        raise InvalidRequestError(
            f"this server knows no time zone {wanted.zone[:64]!r}; name one like Europe/Berlin, or leave zone out for "
            "the server's own"
        )
    if wanted.interval_s is not None and not _SHORTEST_S <= wanted.interval_s <= _LONGEST_S:
        raise InvalidRequestError(
            f"interval_s must be from {_SHORTEST_S:g} to {_LONGEST_S:g} s, not {wanted.interval_s!r}"
        )
    if wanted.round.rounds == CONTINUOUS and not wanted.continuous:
        raise InvalidRequestError("continuous rounds have no times: send continuous instead of daily_at or interval_s")


def is_continuous(row: ScheduleRow) -> bool:
    """Tell whether a schedule's next round opens when the one before has closed."""
    return row.daily_at is None and row.interval_s is None


def first_time(wanted: ScheduleRequest, now: float) -> float:
    """Return when the first round of a schedule shall open, in seconds since 1970: at once, or at its time of day."""
    return now if wanted.daily_at is None else _next_daily(wanted.daily_at, wanted.zone, now)


def next_time(row: ScheduleRow, now: float, *, opened: bool) -> float:
    """Return when the next round of a schedule shall open, in seconds since 1970. Times before ``now`` are left out."""
    if row.daily_at is not None:
        return _next_daily(row.daily_at, row.zone, now)
    if row.interval_s is not None:
        return row.next_at + row.interval_s * (1 + (now - row.next_at) // row.interval_s)
    return now if opened else now + RETRY_S


def _next_daily(daily_at: str, zone: str | None, now: float) -> float:
    """Return the first time after ``now`` at which clocks of a zone show a time; where they skip it, an hour later."""
    where: tzinfo | None = None if zone is None else ZoneInfo(zone)
    today = datetime.fromtimestamp(now, where)
    hour, minute = map(int, daily_at.split(":"))
    times = (
        # Without a zone the time is the server's, and timestamp() asks its rules for that very day.
        (today + timedelta(days=days)).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0).timestamp()
        for days in range(3)
    )
    return next(time for time in times if time > now)


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
        return _info(session.execute(_infos().where(ScheduleRow.schedule_id == row.schedule_id)).one())


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
        return tuple(_info(row) for row in found)


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


def _info(found: Any) -> ScheduleInfo:  # noqa: ANN401  (a database row has no type of its own)
    row: ScheduleRow = found.ScheduleRow
    continuous = is_continuous(row)
    return reply(
        ScheduleInfo,
        row,
        round=parse(RoundRequest, row.request),
        continuous=continuous,
        next_at=None if continuous and row.problem is None else moment(row.next_at),
        last_round=found.last_round,
    )
