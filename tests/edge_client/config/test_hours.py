"""Hours in which a device listens: over midnight, on days of 23 and 25 hours, and what is none."""

from datetime import datetime

import pytest

from edge_client.config.hours import Hours, hours_problem


def at(*moment, fold=0):
    return datetime(2026, *moment, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        (["07:00-23:00"], ["07:00", "22:59"], ["06:59", "23:00", "00:00"]),
        (["22:00-06:30"], ["22:00", "00:00", "06:29"], ["06:30", "21:59"]),
        (["07:00-09:00", "17:00-24:00"], ["08:00", "17:00", "23:59"], ["09:00", "16:59", "00:00"]),
        (["00:00-24:00"], ["00:00", "12:00", "23:59"], []),
        ([], ["00:00", "12:00"], []),
    ],
)
@pytest.mark.usefixtures("berlin")
def test_a_time_is_inside_or_not(hours, inside, outside):
    read = Hours.read(hours)
    for times, expected in ((inside, True), (outside, False)):
        for text in times:
            hour, minute = map(int, text.split(":"))
            assert read.include(at(6, 1, hour, minute)) is expected, text


@pytest.mark.parametrize(
    ("hours", "now", "change"),
    [
        (["07:00-23:00"], (6, 1, 12, 0), (6, 1, 23, 0)),
        (["07:00-23:00"], (6, 1, 23, 0), (6, 2, 7, 0)),
        (["22:00-06:30"], (6, 1, 23, 59, 59), (6, 2, 6, 30)),
        (["22:00-24:00", "00:00-06:00"], (6, 1, 23, 0), (6, 2, 6, 0)),
        # The night of 23 hours, and that of 25.
        (["07:00-23:00"], (3, 28, 23, 30), (3, 29, 7, 0)),
        (["07:00-23:00"], (10, 24, 23, 30), (10, 25, 7, 0)),
        (["02:30-07:00"], (3, 29, 1, 0), (3, 29, 3, 0)),  # 2:30 is not there
    ],
)
@pytest.mark.usefixtures("berlin")
def test_the_next_change_is_what_the_clock_on_the_wall_says(hours, now, change):
    assert Hours.read(hours).next_change(at(*now)) == at(*change)


@pytest.mark.usefixtures("berlin")
def test_hours_without_a_change_have_none():
    assert Hours().next_change(at(6, 1)) is None
    assert Hours.read(["00:00-24:00"]).next_change(at(6, 1)) is None
    assert Hours.read(["00:00-12:00", "12:00-00:00"]).next_change(at(6, 1)) is None


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (["7:00-23:00"], "'7:00-23:00' is not"),
        (["07:00-25:00"], "must be like"),
        (["07:00\u201323:00"], "must be like"),
        (["07:00-07:00"], "must not begin and end at once"),
        (["\u0660\u0667:00-23:00"], "must be like"),
        (["24:00-07:00"], "must be like"),
        ([f"{hour % 24:02d}:00-{hour % 24:02d}:30" for hour in range(21)], "are 21 spans; at most 20"),
    ],
)
def test_what_is_no_hours_is_refused_with_the_way_out(hours, said):
    assert said in hours_problem(hours)
