"""Schedules: a timer that opens plain rounds, every day at a time or every so many hours.

A step of the clock opens the round that is due, where no round is open, and notes when the next one is: a schedule
survives any crash, and a time that passed while the server was off, or another round was open, is made up once.
"""

import logging
import re
from dataclasses import asdict
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from aggregator_server.errors import InvalidRequestError, RefusedError
from aggregator_server.fleet.audit import SERVER, Actor, audit
from aggregator_server.limits import SCHEDULES
from aggregator_server.rounds.opening import open_requested, requested_plan
from aggregator_server.rounds.queries import OPEN_ROUND, open_round_id, write_seen
from aggregator_server.schemas import RoundRequest, ScheduleInfo, ScheduleRequest, reply
from aggregator_server.store import Store
from aggregator_server.store.tables import ScheduleRow
from fleet_protocol.messages import parse

_SHORTEST_S, _LONGEST_S = 60.0, 366 * 86_400.0
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_PROBLEM_LENGTH = 1_000
_GOES_ON = ScheduleRow.ended_at.is_(None)

_log = logging.getLogger(__name__)


def check_times(wanted: ScheduleRequest) -> None:
    """Check that a request says in one way when rounds open.

    Raises:
        InvalidRequestError: it says it in none or two ways, or the time, the zone or the interval is none.
    """
    if (wanted.daily_at is None) == (wanted.interval_s is None):
        raise InvalidRequestError('a schedule needs one of daily_at ("03:00") and interval_s (21600)')
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


def next_daily(daily_at: str, zone: str | None, now: float) -> float:
    """Return the first time after ``now`` at which clocks of a zone show a time; where they skip it, an hour later.

    Args:
        daily_at: as ``HH:MM``.
        zone: its name; None: the server's own.
        now: seconds since 1970, as the time that is returned.
    """
    where: tzinfo | None = None if zone is None else ZoneInfo(zone)
    today = datetime.fromtimestamp(now, where)
    hour, minute = map(int, daily_at.split(":"))
    times = (
        # Without a zone the time is the server's, and timestamp() asks its rules for that very day.
        (today + timedelta(days=days)).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0).timestamp()
        for days in range(3)
    )
    return next(time for time in times if time > now)


def add_schedule(store: Store, wanted: ScheduleRequest, now: float, by: Actor = SERVER) -> ScheduleInfo:
    """Add a schedule, whose first round is due at its time of day, or at once.

    Raises:
        InvalidRequestError: it does not say in one way when rounds open, or there are as many as there may be.
        RefusedError: no round can be as it asks.
        RefusedError: its rounds would replace devices' own models, and it does not say so.
    """
    check_times(wanted)
    with store.writing() as session:
        requested_plan(session, wanted.round)
        if (session.scalar(select(func.count()).where(_GOES_ON)) or 0) >= SCHEDULES:
            raise InvalidRequestError(f"there are {SCHEDULES} schedules, and may be no more; end one first")
        row = ScheduleRow(
            request=asdict(wanted.round),
            daily_at=wanted.daily_at,
            zone=wanted.zone,
            interval_s=wanted.interval_s,
            made_at=now,
            next_at=now if wanted.daily_at is None else next_daily(wanted.daily_at, wanted.zone, now),
        )
        session.add(row)
        session.flush()
        audit(session, "schedule_made", by, now, schedule_id=row.schedule_id, strategy=wanted.round.strategy)
        return _info(row)


def end_schedule(store: Store, schedule_id: int, now: float, by: Actor = SERVER) -> None:
    """Open no more rounds by a schedule. Raises RefusedError: there is no such schedule, or it has ended."""
    with store.writing() as session:
        row = session.get(ScheduleRow, schedule_id)
        if row is None or row.ended_at is not None:
            raise RefusedError(
                "schedule_not_found", f"there is no schedule {schedule_id}; GET /v1/schedules lists them"
            )
        row.ended_at = now
        audit(session, "schedule_ended", by, now, schedule_id=schedule_id)


def list_schedules(store: Store) -> tuple[ScheduleInfo, ...]:
    """Return the schedules that go on, oldest first."""
    with store.reading() as session:
        return tuple(map(_info, session.scalars(select(ScheduleRow).where(_GOES_ON).order_by(ScheduleRow.schedule_id))))


def next_opening(session: Session) -> float | None:
    """Return when the next round of a schedule is due, in seconds since 1970; None while a round is open."""
    return session.scalar(select(func.min(ScheduleRow.next_at)).where(_GOES_ON, ~OPEN_ROUND.exists()))


def open_scheduled(store: Store, now: float) -> int | None:
    """Open the round whose time has come, where no round is open; return its number. Any process may call it any time.

    A schedule whose round cannot be opened says why, and is tried again at its next time.
    """
    write_seen(store)
    with store.writing() as session:
        if open_round_id(session) is not None:
            return None
        due = select(ScheduleRow).where(_GOES_ON, ScheduleRow.next_at <= now)
        for row in session.scalars(due.order_by(ScheduleRow.next_at, ScheduleRow.schedule_id)).all():
            if row.interval_s is None:
                row.next_at = next_daily(str(row.daily_at), row.zone, now)
            else:  # times before now are left out
                row.next_at += row.interval_s * (1 + (now - row.next_at) // row.interval_s)
            if _open(session, row, now):
                return row.last_round
    return None


def _open(session: Session, row: ScheduleRow, now: float) -> bool:
    try:
        with session.begin_nested():
            opened = open_requested(session, parse(RoundRequest, row.request), now)
    except (SQLAlchemyError, OSError, MemoryError):
        raise
    except Exception as error:  # a request's or a package's fault must not keep other schedules from their turn
        _log.warning("schedule %d opens no round: %s", row.schedule_id, error)
        row.problem = (str(error) or type(error).__name__)[:_PROBLEM_LENGTH]
        return False
    row.last_round, row.problem = opened.round_id, None
    number, strategy = opened.round_id, opened.strategy
    audit(session, "round_opened", SERVER, now, round_id=number, strategy=strategy, schedule_id=row.schedule_id)
    return True


def _info(row: ScheduleRow) -> ScheduleInfo:
    return reply(ScheduleInfo, row, round=parse(RoundRequest, row.request))
