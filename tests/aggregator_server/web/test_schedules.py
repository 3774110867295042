"""Schedules at a running server: by REST, and by the command."""

import pytest

from tests.support.aggregator_process import Fleet
from tests.support.commands import answer, command, failed, printed
from tests.support.core_fleet import devices
from tests.support.edge_process import wait_for


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


def is_refused(response, status, code, word=""):
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert word in response.json()["error"]["message"]


def schedules(fleet):
    return fleet.admin.get("/v1/schedules").json()


def test_the_clock_opens_a_round_that_waited_for_another_one(fleet):
    opened = fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot"}).json()["round_id"]
    made = fleet.admin.post("/v1/schedules", json={"round": {"strategy": "zero_shot"}, "interval_s": 3600}).json()
    assert made["last_round"] is None
    fleet.admin.delete(f"/v1/rounds/{opened}").raise_for_status()
    wait_for(lambda: schedules(fleet)[0]["last_round"] == opened + 1)
    assert fleet.admin.delete(f"/v1/schedules/{made['schedule_id']}").status_code == 204
    assert schedules(fleet) == []
    is_refused(fleet.admin.delete(f"/v1/schedules/{made['schedule_id']}"), 404, "schedule_not_found")
    fleet.admin.delete(f"/v1/rounds/{opened + 1}").raise_for_status()


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
    failed(command("schedule", "end", 77, *here), "no schedule 77")
