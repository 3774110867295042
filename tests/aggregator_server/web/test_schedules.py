"""Schedules at a running server, by the command."""

import pytest

from tests.support.aggregator_process import Fleet
from tests.support.commands import answer, command, failed, printed
from tests.support.core_fleet import devices


@pytest.fixture(scope="module")
def fleet(aggregator):
    found = Fleet(aggregator, devices())
    found.publish().raise_for_status()
    found.enrol()
    yield found
    found.close()


@pytest.fixture(scope="module")
def here(aggregator):
    return ("--data", aggregator.data)


def schedules(fleet):
    return fleet.admin.get("/v1/schedules").json()


def test_the_command_makes_lists_and_ends_them(fleet, here):
    plan = ("zero_shot", "--set", "epochs=3", "--quorum", "0.3")
    made = answer("schedule", "add", *plan, "--daily-at", "03:00", "--zone", "Europe/Berlin", *here)
    assert (made["round"]["settings"], made["round"]["quorum"]) == ({"epochs": 3}, 0.3)
    assert answer("schedule", "list", *here) == [made] == schedules(fleet)
    shown = printed("schedule", "list", *here)
    assert "daily at 03:00 Europe/Berlin" in shown
    assert "zero_shot" in shown
    number = made["schedule_id"]
    assert printed("schedule", "end", number, *here) == f"schedule {number} has ended\n"
    assert schedules(fleet) == []
    for given, said in (("6h", "every 6 h"), ("90m", "every 90 min")):
        made = answer("schedule", "add", *plan, "--interval", given, *here)
        assert said in printed("schedule", "list", *here)
        printed("schedule", "end", made["schedule_id"], *here)
    failed(command("schedule", "end", 77, *here), "no schedule 77")
