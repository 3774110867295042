"""When a schedule's rounds open: every day at a time, every so many seconds, or one after the other."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from aggregator_server.errors import InvalidRequestError
from aggregator_server.schemas import ScheduleRequest
from aggregator_server.store.tables import ScheduleRow
from fleet_protocol.messages import CONTINUOUS

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
    """Return when the next round of a schedule shall open, in seconds since 1970. Times before ``now`` are left out.

    Args:
        row: the schedule, with the time that has come.
        now: seconds since 1970.
        opened: whether the round of that time is open.
    """
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
