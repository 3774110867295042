"""Looking back: counts by local day and hour, remarks beside events, exports that no spreadsheet runs, and removal."""

import csv
import io
import json
import sqlite3
from datetime import date, datetime, timedelta

import pytest

from edge_client.events import Event
from edge_client.events.history import as_csv, as_json, begin_of, counts, event_at, every, names, newest, remarks
from edge_client.events.journal import COLUMNS, Chosen, past_events, remove_events
from edge_client.storage.database import Database

DAY = date(2026, 3, 29)  # in Berlin the hour from 2 to 3 is missing


@pytest.fixture
def database(tmp_path, berlin):
    return Database(tmp_path / "state.sqlite3")


def at(day, hour, minute=0, label="kettle", kind="detected", score=0.9, **more):
    moment = datetime(day.year, day.month, day.day, hour, minute).timestamp()
    return Event(moment, kind, label, None, score, -30.0, **more)


def keep(database, *events):
    rows = [
        (one.time, one.kind, one.label, one.class_id, one.score, one.level_db, one.ended, one.input, one.guess)
        for one in events
    ]
    with database.changing() as connection:
        connection.executemany(f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def of_day(day=DAY, **more):
    return Chosen(begin_of(day), begin_of(day, 24), **more)


def test_events_are_counted_by_local_hour_also_where_an_hour_is_missing(database):
    assert counts(database, of_day()) == {}
    unknown = at(DAY, 23, 59, "unknown", "unknown", 0.2, input="kitchen")
    keep(database, at(DAY, 0), at(DAY, 1, 59), at(DAY, 3), at(DAY, 3, 59), unknown, at(DAY + timedelta(days=1), 0))
    assert begin_of(DAY, 24) - begin_of(DAY) == 23 * 3600
    assert counts(database, of_day()) == {(DAY, 0): 1, (DAY, 1): 1, (DAY, 3): 2, (DAY, 23): 1}
    assert counts(database, of_day(label="unknown")) == counts(database, of_day(kind="unknown")) == {(DAY, 23): 1}
    assert counts(database, of_day(input="kitchen")) == {(DAY, 23): 1}
    assert sum(counts(database, of_day(least=0.5)).values()) == 4
    assert names(database, *(begin_of(DAY), begin_of(DAY, 24))) == (["kettle"], ["kitchen"])
    assert [event.time for event in newest(database, of_day(), 2)] == [unknown.time, at(DAY, 3, 59).time]
    assert event_at(database, "unknown", round(1e3 * unknown.time)) == unknown
    assert event_at(database, "detected", round(1e3 * unknown.time)) is None


def test_the_first_of_a_day_and_what_comes_at_an_unusual_hour_are_remarked(database):
    mornings = [at(DAY - timedelta(days=back), 7, minute) for back in range(1, 9) for minute in (0, 20, 40)]
    rare = [at(DAY - timedelta(days=back), 7, label="bell") for back in range(1, 9)]
    today = [at(DAY, 7), at(DAY, 8), at(DAY, 22), at(DAY, 22, label="bell"), at(DAY, 23, 0, "unknown", "unknown")]
    keep(database, *mornings, *rare, *today)
    first = ("first time that day",)
    assert remarks(database, DAY, today) == [first, (), ("unusual at this hour",), first, ()]  # the bell is too rare


def test_exports_hold_all_that_was_chosen_and_no_formula(database):
    nasty = ["=1+1", "+1", "-1", "@x", '"quoted", and\nbroken', "κουδούνι"]
    keep(database, *(at(DAY, 5, minute, label) for minute, label in enumerate(nasty)))
    keep(database, at(DAY, 5, 30, "unknown", "unknown", guess="=glass, clink"))
    keep(database, *(at(DAY, 6, 0, label="many", ended=begin_of(DAY, 6) + 2.0) for _ in range(2500)))
    rows = list(csv.DictReader(io.StringIO("".join(as_csv(every(database, of_day()))))))
    assert [row["label"] for row in rows[:6]] == ["'=1+1", "'+1", "'-1", "'@x", *nasty[4:]]
    assert len(rows) == 2507
    assert rows[6]["guess"] == "'=glass, clink"
    assert rows[-1] == {
        "time": "2026-03-29T04:00:00.000Z",
        "kind": "detected",
        "label": "many",
        "class_id": "",
        "score": "0.9000",
        "level_db": "-30.0",
        "ended": "2026-03-29T04:00:02.000Z",
        "lasted_s": "2.0",
        "input": "",
        "guess": "",
    }
    found = json.loads("".join(as_json(every(database, of_day(label="=1+1")))))
    assert found == [at(DAY, 5, 0, "=1+1").to_json()]
    assert json.loads("".join(as_json(every(database, of_day(label="nobody"))))) == []


def test_what_is_chosen_is_removed_and_nothing_else(database):
    keep(database, at(DAY, 5), at(DAY, 5, label="bell"), at(DAY + timedelta(days=1), 0))
    assert remove_events(database, of_day(label="kettle")) == 1
    assert remove_events(database, of_day(label="kettle")) == 0
    assert [event.label for event in past_events(database, 9)] == ["bell", "kettle"]


def test_of_a_large_journal_the_period_alone_is_read(database):
    """By SQLite's own count of steps: on a Pi 2 a hundred thousand events must not be read to show two weeks."""
    begin = begin_of(DAY - timedelta(days=90))
    keep(
        database, *(Event(begin + 77.76 * number, "detected", "kettle", None, 0.9, -30.0) for number in range(100_000))
    )
    last = DAY - timedelta(days=1)
    period = Chosen(begin_of(last - timedelta(days=13)), begin_of(DAY))
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    connect = sqlite3.connect

    def counted(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_progress_handler(count, 1000)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", counted)
        assert sum(counts(database, period).values()) == pytest.approx(14 * 86_400 / 77.76, abs=30)
        remarks(database, last, newest(database, period, 100))
        names(database, period.since, period.until)
    assert 100 < steps < 1200  # thousands; with the whole journal 3,043
