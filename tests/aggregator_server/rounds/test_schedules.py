"""Schedules: rounds of any strategy open by themselves, also after a server was off or killed."""

import os
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from aggregator_server.errors import InvalidRequestError, RefusedError
from aggregator_server.fleet.audit import list_entries
from aggregator_server.limits import SCHEDULES
from aggregator_server.rounds.schedules import (
    add_schedule,
    end_schedule,
    list_schedules,
    next_daily,
    next_opening,
    open_scheduled,
)
from aggregator_server.rounds.views.replies import list_rounds
from aggregator_server.schemas import RoundRequest, ScheduleRequest
from tests.support.core_fleet import CoreFleet, devices

HOUR, DAY = 3_600.0, 86_400.0
ROUND = RoundRequest("zero_shot", deadline_s=600.0)


@pytest.fixture
def empty(tmp_path):
    """A fleet without devices."""
    return CoreFleet(tmp_path / "data", [])


@pytest.fixture
def far_east(monkeypatch):
    """The server's zone: nine hours before UTC's, without summer time."""
    monkeypatch.setitem(os.environ, "TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text, zone=UTC):
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def schedule(fleet, now, request=ROUND, **when):
    return add_schedule(fleet.store, ScheduleRequest(round=request, **when), now)


def close(fleet, now):
    """Let every device upload; return the round that this closed."""
    fleet.upload_all(now)
    closed = fleet.advance(now)
    fleet.all_learned(closed)
    return closed


def states(fleet):
    return [(found.round_id, found.state) for found in reversed(list_rounds(fleet.store, None, 50))]


def next_at(fleet, index=0):
    return list_schedules(fleet.store)[index].next_at.timestamp()


def test_every_night_a_round_opens_at_its_time(fleet):
    made = schedule(fleet, at("2026-03-01T12:00"), daily_at="03:00", zone="Europe/Berlin")
    night = at("2026-03-02T02:00")  # winter time
    assert (made.next_at.timestamp(), made.last_round, made.problem) == (night, None, None)
    assert open_scheduled(fleet.store, night - 1) is None
    assert open_scheduled(fleet.store, night + 1) == 1
    assert open_scheduled(fleet.store, night + 2) is None
    assert close(fleet, night + 60) == 1
    assert states(fleet) == [(1, "done")]
    assert next_at(fleet) == night + DAY
    assert list_schedules(fleet.store)[0].last_round == 1
    opened = list_entries(fleet.store, None, 9, "round_opened")[0]
    assert (opened.who, opened.details["schedule_id"]) == ("server", 1)


def test_summer_time_moves_a_named_zones_time_and_a_time_that_is_skipped_comes_an_hour_later():
    berlin = ZoneInfo("Europe/Berlin")
    assert next_daily("03:00", "Europe/Berlin", at("2026-03-28T12:00")) == at("2026-03-29T01:00")
    assert next_daily("03:00", "Europe/Berlin", at("2026-10-24T12:00")) == at("2026-10-25T02:00")
    skipped = next_daily("02:30", "Europe/Berlin", at("2026-03-28T12:00"))
    assert datetime.fromtimestamp(skipped, berlin).isoformat() == "2026-03-29T03:30:00+02:00"
    once = next_daily("02:30", "Europe/Berlin", at("2026-10-24T12:00"))
    assert next_daily("02:30", "Europe/Berlin", once) - once > DAY - HOUR  # the hour that comes twice has one round


@pytest.mark.usefixtures("far_east")
def test_without_a_zone_the_time_is_the_servers():
    assert next_daily("03:00", None, at("2026-03-01T12:00")) == at("2026-03-01T18:00")
    assert next_daily("03:00", "UTC", at("2026-03-01T12:00")) == at("2026-03-02T03:00")


def test_every_so_many_hours_beginning_at_once_until_it_ends(fleet):
    schedule(fleet, 1_000.0, interval_s=6 * HOUR)
    assert open_scheduled(fleet.store, 1_000.0) == 1
    close(fleet, 1_100.0)
    assert next_at(fleet) == 1_000.0 + 6 * HOUR
    assert open_scheduled(fleet.store, 1_000.0 + 6 * HOUR) == 2
    end_schedule(fleet.store, 1, 1_001.0 + 6 * HOUR)
    assert list_schedules(fleet.store) == ()
    close(fleet, 1_002.0 + 6 * HOUR)  # its open round goes on
    assert open_scheduled(fleet.store, DAY) is None
    for number in (1, 2):
        with pytest.raises(RefusedError, check=lambda error: error.code == "schedule_not_found"):
            end_schedule(fleet.store, number, DAY)


def test_times_that_passed_while_the_server_was_off_are_made_up_once(fleet, tmp_path):
    schedule(fleet, at("2026-03-01T12:00"), daily_at="03:00", zone="UTC")
    fleet.store.close()
    again = CoreFleet.reopened(tmp_path / "data")
    now = at("2026-03-09T09:00")
    assert open_scheduled(again.store, now) == 1
    close(again, now + 60)
    assert open_scheduled(again.store, now + 61) is None
    assert next_at(again) == at("2026-03-10T03:00")


def test_a_time_at_which_a_round_is_open_waits_for_its_end(fleet):
    schedule(fleet, 1_000.0, daily_at="03:00", zone="UTC")
    due = 3 * HOUR
    fleet.open(due - 60.0, deadline_s=3_600.0)
    assert open_scheduled(fleet.store, due + 1) is None
    with fleet.store.reading() as session:
        assert next_opening(session) is None  # the clock need not look
    assert close(fleet, due + 120) == 1
    assert open_scheduled(fleet.store, due + 121) == 2
    assert states(fleet) == [(1, "done"), (2, "open")]
    assert next_at(fleet) == due + DAY


def test_a_round_that_cannot_open_says_why_and_is_tried_at_the_next_time(empty):
    now = at("2026-03-01T03:00")
    schedule(empty, now - 1, daily_at="03:00", zone="UTC")
    assert open_scheduled(empty.store, now) is None
    found = list_schedules(empty.store)[0]
    assert "no device is enrolled" in found.problem
    assert found.next_at.timestamp() == now + DAY
    assert states(empty) == []  # no half of a round stays
    for device in devices():
        empty.enrol(device)
    assert open_scheduled(empty.store, now + DAY) == 1
    assert list_schedules(empty.store)[0].problem is None


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({}, "needs one of daily_at"),
        ({"daily_at": "03:00", "interval_s": 3_600.0}, "needs one of daily_at"),
        ({"daily_at": "24:00"}, "daily_at is a time of day such as \"03:00\", not '24:00'"),
        ({"daily_at": "3"}, "daily_at is a time of day"),
        ({"daily_at": "0\u0663:00"}, "daily_at is a time of day"),
        ({"daily_at": "03:00\n"}, "daily_at is a time of day"),
        ({"daily_at": "03:00", "zone": "Europe/Nowhere"}, "no time zone 'Europe/Nowhere'"),
        ({"daily_at": "03:00", "zone": "../../etc/passwd"}, "no time zone"),
        ({"daily_at": "03:00", "zone": "Europe"}, "no time zone"),
        ({"interval_s": 60.0, "zone": "UTC"}, "zone belongs to daily_at"),
        ({"interval_s": 1.0}, "interval_s must be from 60"),
        ({"interval_s": float("nan")}, "interval_s must be from 60"),
        ({"interval_s": 1e12}, "interval_s must be from 60"),
    ],
)
def test_what_is_no_schedule_is_refused(fleet, when, message):
    with pytest.raises(InvalidRequestError, match=message):
        add_schedule(fleet.store, ScheduleRequest(**when), 1_000.0)
    assert list_schedules(fleet.store) == ()


def test_there_are_only_so_many(fleet):
    for _ in range(SCHEDULES):
        schedule(fleet, 1_000.0, daily_at="03:00")
    with pytest.raises(InvalidRequestError, match="may be no more; end one first"):
        schedule(fleet, 1_000.0, daily_at="03:00")
    end_schedule(fleet.store, 3, 1_001.0)
    schedule(fleet, 1_002.0, daily_at="03:00")
