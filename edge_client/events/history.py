"""Looking back on what the device heard: events of a period, filtered, counted by hour, and exported.

A day's events, and counts by label and quarter of an hour, are read by the index of their times: what is outside of
the period costs nothing. Days and hours are of local time.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta

from edge_client.events import Event, iso
from edge_client.events.journal import COLUMNS, Chosen
from edge_client.storage.database import Database

# All time zones are off by whole quarters of an hour.
_QUARTER_S = 900
_PAGE = 1000
# When an hour is unusual for a label: of so many days before, it was heard this often at least, on so many of them, and
# at most this share of that was within an hour of it.
_USUAL_DAYS, _USUAL_EVENTS, _USUAL_ON, _UNUSUAL_SHARE = 14, 20, 5, 0.02
# With these a spreadsheet begins a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CSV_COLUMNS = ("time", "kind", "label", "class_id", "score", "level_db", "ended", "lasted_s", "input", "guess")


def begin_of(day: date, hour: int = 0) -> float:
    """Return when an hour, 0 to 24, of a local day begins, seconds since 1970."""
    day += timedelta(days=hour // 24)
    return datetime(day.year, day.month, day.day, hour % 24).timestamp()


def day_of(moment: float) -> date:
    """Return the local day of a time in seconds since 1970."""
    return datetime.fromtimestamp(moment).date()


def counts(database: Database, chosen: Chosen) -> dict[tuple[date, int], int]:
    """Return how many events there were by local day and hour, 0 to 23. Raises as :class:`Database`."""
    where, values = chosen.where()
    query = f"SELECT CAST(time / {_QUARTER_S} AS INTEGER), COUNT(*) FROM events WHERE {where} GROUP BY 1"
    found: dict[tuple[date, int], int] = {}
    for quarter, count in database.rows(query, values):
        then = datetime.fromtimestamp(quarter * _QUARTER_S)
        cell = then.date(), then.hour
        found[cell] = found.get(cell, 0) + count
    return found


def newest(database: Database, chosen: Chosen, limit: int) -> list[Event]:
    """Return so many of the chosen events, the newest first. Raises as :class:`Database`."""
    where, values = chosen.where()
    query = f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY time DESC LIMIT ?"
    return [Event(*row) for row in database.rows(query, (*values, limit))]


def event_at(database: Database, kind: str, at_ms: int) -> Event | None:
    """Return the event of a kind and a time, ms since 1970; None where the journal has none (any more)."""
    moment = at_ms / 1e3
    found = newest(database, Chosen(moment - 0.001, moment + 0.001, kind=kind), _PAGE)
    return next((event for event in found if round(1e3 * event.time) == at_ms), None)


def names(database: Database, since: float, until: float) -> tuple[list[str], list[str]]:
    """Return the labels of detected sounds, and the inputs, of the events of a period, each sorted."""
    query = "SELECT DISTINCT kind, label, input FROM events WHERE time >= ? AND time < ?"
    rows = database.rows(query, (since, until))
    labels = sorted({label for kind, label, _ in rows if kind == "detected"}, key=str.casefold)
    return labels, sorted({name for _, _, name in rows if name})


def remarks(database: Database, day: date, events: Iterable[Event]) -> list[tuple[str, ...]]:
    """Return what is remarkable of each of some events of a day: the first of its label, or at an unusual hour.

    An hour is unusual for a label that was heard at least 20 times on 5 of the 14 days before, if at most 2 % of that
    was within an hour of it.
    """
    begin, end = begin_of(day), begin_of(day + timedelta(days=1))
    of_day = "SELECT label, MIN(time) FROM events WHERE time >= ? AND time < ? AND kind = 'detected' GROUP BY label"
    firsts = dict(database.rows(of_day, (begin, end)))
    usual = _usual_hours(database, day)
    words = "first time today" if day == day_of(time.time()) else "first time that day"

    def said(event: Event) -> Iterator[str]:
        if event.kind == "detected" and firsts.get(event.label) == event.time:
            yield words
        hour = datetime.fromtimestamp(event.time).hour
        if event.kind == "detected" and event.label in usual and usual[event.label][hour] <= _UNUSUAL_SHARE:
            yield "unusual at this hour"

    return [tuple(said(event)) for event in events]


def _usual_hours(database: Database, day: date) -> dict[str, list[float]]:
    """Return by label which share of the days before was heard within an hour of each hour of the day, [24]."""
    query = (
        f"SELECT CAST(time / {_QUARTER_S} AS INTEGER), label, COUNT(*) FROM events"
        " WHERE time >= ? AND time < ? AND kind = 'detected' GROUP BY 1, 2"
    )
    hours: dict[str, list[int]] = {}
    days: dict[str, set[date]] = {}
    begin, of_quarter = begin_of(day - timedelta(days=_USUAL_DAYS)), dict[int, datetime]()
    for quarter, label, count in database.rows(query, (begin, begin_of(day))):
        if quarter not in of_quarter:
            of_quarter[quarter] = datetime.fromtimestamp(quarter * _QUARTER_S)
        then = of_quarter[quarter]
        hours.setdefault(label, [0] * 24)[then.hour] += count
        days.setdefault(label, set()).add(then.date())
    return {
        label: [(found[hour - 1] + found[hour] + found[(hour + 1) % 24]) / sum(found) for hour in range(24)]
        for label, found in hours.items()
        if sum(found) >= _USUAL_EVENTS and len(days[label]) >= _USUAL_ON
    }


def every(database: Database, chosen: Chosen) -> Iterator[Event]:
    """Yield all chosen events, the oldest first, some at a time. Raises as :class:`Database`."""
    where, values = chosen.where()
    query = f"SELECT id, {COLUMNS} FROM events WHERE {where} AND id > ? ORDER BY id LIMIT {_PAGE}"
    last = 0
    while rows := database.rows(query, (*values, last)):
        yield from (Event(*row) for _, *row in rows)
        last = rows[-1][0]


def as_csv(events: Iterable[Event]) -> Iterator[str]:
    """Yield events as lines of CSV (RFC 4180), the first with the columns' names; times are UTC.

    What a spreadsheet would take for a formula begins with an apostrophe.
    """
    yield _line(_CSV_COLUMNS)
    for event in events:
        ended = "" if event.ended is None else iso(event.ended)
        lasted = "" if event.lasted_s is None else f"{event.lasted_s:.1f}"
        texts = [_harmless(text) for text in (event.label, event.class_id or "", event.input, event.guess)]
        figures = f"{event.score:.4f}", f"{event.level_db:.1f}"
        yield _line((iso(event.time), event.kind, *texts[:2], *figures, ended, lasted, *texts[2:]))


def as_json(events: Iterable[Event]) -> Iterator[str]:
    """Yield a JSON array of events, an event a line."""
    between = "[\n"
    for event in events:
        yield between + json.dumps(event.to_json())
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(values: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(values)
    return out.getvalue()
