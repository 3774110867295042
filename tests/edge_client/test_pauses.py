"""Pauses: they outlive processes and power cuts, end when they should whatever is done to the clock, and obey hours."""

import time
from datetime import datetime

import pytest

from edge_client.config.hours import Hours
from edge_client.errors import ConfigError, PausedError
from edge_client.pauses import Pauses, seconds_of
from edge_client.storage.database import FILE, Database

DAY_S = 86_400.0
NOON = datetime(2026, 6, 1, 12, 0).timestamp()


class Machine:
    """A machine's clocks: that of the day, which may be set, and the one since its start."""

    def __init__(self, folder, hours=()):
        self.folder, self.hours = folder, Hours.read(hours)
        self.now, self.boot, self.ran = NOON, "first", 1_000.0

    def pauses(self):
        """As another process opens them."""
        clocks = {"now": lambda: self.now, "since_start": lambda: (self.boot, self.ran)}
        return Pauses(Database(self.folder / FILE), self.hours, **clocks)

    def current(self):
        return self.pauses().current()

    def wait(self, seconds):
        self.now += seconds
        self.ran += seconds

    def start_again(self, off_s=60.0, clock=None):
        """After a power cut of so long; ``clock``: what it then takes for the time."""
        self.now = self.now + off_s if clock is None else clock
        self.boot, self.ran = f"{self.boot}, another", 5.0
        self.pauses().settle()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_device_is_not_paused_until_somebody_does_and_then_until_somebody_ends_it(machine):
    assert machine.current() is None
    machine.pauses().pause("page")
    machine.wait(400 * DAY_S)
    machine.start_again()
    pause = machine.current()
    assert (pause.by, pause.until) == ("page", None)
    assert pause.since == pytest.approx(NOON)
    with pytest.raises(PausedError, match=r"paused since .* by the owner's page.*auricle-edge resume"):
        machine.pauses().require_awake()
    machine.pauses().resume()
    assert machine.current() is None
    machine.pauses().require_awake()


def test_a_pause_for_a_time_ends_by_itself(machine):
    machine.pauses().pause("command", 1_800.0)
    machine.wait(1_799)
    pause = machine.current()
    assert (pause.since, pause.until) == (pytest.approx(NOON), pytest.approx(NOON + 1_800))
    machine.wait(2)
    assert machine.current() is None


@pytest.mark.parametrize("clock", [60.0, NOON - 3 * DAY_S, NOON + 3650 * DAY_S], ids=["1970", "back", "ahead"])
def test_a_clock_that_is_set_neither_ends_nor_lengthens_it(machine, clock):
    machine.pauses().pause("command", 1_800.0)
    machine.wait(600)
    machine.now = clock
    assert machine.current().until == pytest.approx(clock + 1_200)
    machine.wait(1_201)
    assert machine.current() is None


def test_the_time_without_power_counts(machine):
    machine.pauses().pause("command", 1_800.0)
    machine.wait(600)
    machine.start_again(off_s=600)
    assert machine.current().until == pytest.approx(NOON + 1_800)
    machine.start_again(off_s=1_000)
    assert machine.current() is None


def test_after_a_power_cut_without_a_clock_the_time_begins_anew_and_ends_all_the_same(machine):
    machine.pauses().pause("command", 1_800.0)
    machine.wait(600)
    machine.start_again(clock=60.0)
    machine.wait(1_000)
    machine.now = NOON + 3_000  # the network has the time
    assert machine.current() is not None
    machine.wait(801)
    assert machine.current() is None


@pytest.mark.parametrize(
    "given", ["1000000000d", "-5m", "31d", "0m", "5", "", "1.5h", "m", "\uff15m", "9" * 5_000 + "s"]
)
def test_what_is_no_time_of_a_pause_is_refused_with_the_way_out(given):
    with pytest.raises(ConfigError, match="write it like 90s, 30m, 8h or 2d, at most 30d") as error:
        seconds_of(given)
    assert len(str(error.value)) < 300


def test_what_is_one_is_taken():
    assert [seconds_of(given) for given in ("90s", "30m", "8h", "30d")] == [90, 1_800, 28_800, 30 * DAY_S]


@pytest.fixture
def awake_by_day(tmp_path):
    """A device that listens from 7 to 23 o'clock, at noon."""
    return Machine(tmp_path, ["07:00-23:00"])


def test_outside_of_its_hours_it_is_paused_until_they_begin(awake_by_day):
    assert awake_by_day.current() is None
    awake_by_day.wait(12 * 3_600)
    pause = awake_by_day.current()
    assert (pause.by, pause.since, pause.until) == ("hours", None, NOON + 19 * 3_600)
    assert pause.words.startswith("until ")
    assert pause.words.endswith("07:00 by its hours")
    awake_by_day.wait(7 * 3_600)
    assert awake_by_day.current() is None


def test_who_resumes_at_night_opens_that_night_alone(awake_by_day):
    awake_by_day.wait(12 * 3_600)
    awake_by_day.pauses().resume()
    assert awake_by_day.current() is None
    awake_by_day.start_again()
    assert awake_by_day.current() is None
    awake_by_day.wait(24 * 3_600)
    assert awake_by_day.current().by == "hours"


def test_a_pause_goes_on_over_the_hours_unless_it_is_for_a_time(awake_by_day):
    awake_by_day.pauses().pause("Home Assistant")
    awake_by_day.wait(24 * 3_600)
    assert awake_by_day.current().by == "Home Assistant"
    awake_by_day.pauses().pause("Home Assistant", 12 * 3_600.0)
    awake_by_day.wait(12 * 3_600 + 1)
    assert awake_by_day.current().by == "hours"
    awake_by_day.pauses().resume()
    assert awake_by_day.current() is None


def test_without_the_time_it_does_not_listen_unless_somebody_says_so(awake_by_day):
    awake_by_day.now = 40_000.0
    pause = awake_by_day.current()
    assert (pause.by, pause.until) == ("hours", None)
    assert pause.words == "by its hours, until it knows the time"
    awake_by_day.pauses().resume()
    assert awake_by_day.current() is None
    awake_by_day.now = NOON + 12 * 3_600
    assert awake_by_day.current().by == "hours"


def test_the_clock_of_this_machine_is_one(tmp_path):
    pauses = Pauses(Database(tmp_path / FILE), Hours())
    pauses.pause("command", 3_600.0)
    assert pauses.current().since == pytest.approx(time.time(), abs=60)
