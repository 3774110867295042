"""Several servers with one database and one store: one fleet, whichever of them a device talks to."""

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.core_fleet import CoreFleet
from tests.support.shared_servers import children_of
from tests.support.state_servers import name_of, options_of

pytestmark = [pytest.mark.scaled, pytest.mark.slow]
RESULTS = "SELECT round_id, state, reason, result_consensus, result_public_set FROM rounds ORDER BY round_id"
CLOSED = "SELECT count(*) FROM audit WHERE what = 'round_closed'"


def until(found, seconds=120):
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


class SharedFleet:
    """Server processes that share a fleet, each with a data folder of its own; the first has the lease.

    Attributes:
        at: The fleet's devices and administrator at each server.
    """

    def __init__(self, folder, start, states, count, devices=4):
        self.postgres, self.database = states.postgres, name_of(states.of(folder))
        self.devices = [FakeDevice(number, ("c0", "c1")) for number in range(1, devices + 1)]
        servers = [start("server-0", *options_of(folder))]
        with ThreadPoolExecutor() as threads:
            servers += threads.map(lambda number: start(f"server-{number}", *options_of(folder)), range(1, count))
        self.at = [Fleet(server, self.devices) for server in servers]
        self.at[0].ready()

    def ask(self, statement):
        return self.postgres.ask(self.database, statement)

    def upload(self, device, number):
        fleet = self.at[number]
        return fleet.upload(device, fleet.contribution(device)).raise_for_status().json()

    def token(self):
        return self.ask("SELECT token FROM lease WHERE expires_at > clock_timestamp()")[0][0]

    def done(self, round_id, number):
        return self.at[number].round(round_id)["summary"]["state"] == "done"


@pytest.fixture
def shared(tmp_path, start_aggregator, states):
    return lambda count: SharedFleet(tmp_path / "fleet", start_aggregator, states, count)


def undisturbed(folder, devices, uploads):
    """Where one process alone has put what it makes of the same uploads."""
    fleet = CoreFleet(folder, devices)
    with contextlib.closing(fleet.store):
        fleet.open(100.0, deadline_s=200.0, quorum=0.5)
        for device in devices[:uploads]:
            fleet.upload(device)
        fleet.advance(400.0)
    return fleet.store.location


def test_a_fleet_is_one_whichever_server_its_devices_and_people_talk_to(shared):
    fleet = shared(3)
    first, second, third = fleet.at
    device = fleet.devices[0]
    with ThreadPoolExecutor() as threads:
        polls = [threads.submit(at.work, each, 60) for at, each in zip(fleet.at, fleet.devices, strict=False)]
        time.sleep(0.5)  # they wait by now, or find it at once
        began = time.monotonic()
        round_id = second.open_round()
        works = [poll.result() for poll in polls]
        assert time.monotonic() - began < 10
        assert [(work["kind"], work["round_id"]) for work in works] == [("contribute", round_id)] * 3
        body = device.upload(works[0], fleet.at[0].samples)
        sent = [threads.submit(at.upload, device, works[0], body) for at in fleet.at]
        assert sorted(one.result().json()["repeated"] for one in sent) == [False, True, True]
    for index, each in enumerate(fleet.devices[1:]):
        fleet.upload(each, (index + 1) % 3)
    for number in range(3):
        until(lambda number=number: fleet.done(round_id, number))
    counted = fleet.ask(f"SELECT count(upload), count(DISTINCT upload) FROM participants WHERE round_id = {round_id}")
    assert counted == [(4, 4)]
    assert fleet.ask(CLOSED) == [(1,)]
    assert fleet.token() == 1
    following = second.open_round(deadline_s=5, quorum=0.5)
    for each in fleet.devices[:3]:
        fleet.upload(each, 2)
    deadline = fleet.ask(f"SELECT deadline_at FROM rounds WHERE round_id = {following}")[0][0]
    until(lambda: time.time() > deadline - 1)
    first.aggregator.kill()  # it would have closed the round
    until(lambda: fleet.done(following, 2))
    assert time.time() - deadline < 10
    assert (fleet.ask(CLOSED), fleet.token()) == ([(2,)], 2)
    third.admin.delete(f"/v1/devices/{device.device_id}").raise_for_status()
    assert second.clients[device.number].get("/v1/work").status_code == 403


def test_a_server_that_was_paused_while_it_computed_writes_nothing_when_it_comes_back(shared, tmp_path):
    fleet = shared(2)
    first = fleet.at[0]
    paused = first.aggregator.process.pid
    round_id = first.open_round(deadline_s=4, quorum=0.5)
    for device in fleet.devices[:3]:
        fleet.upload(device, 1)
    deadline = fleet.ask("SELECT deadline_at FROM rounds")[0][0]
    children = children_of(paused)
    for child in children:
        os.kill(child, signal.SIGSTOP)
    until(lambda: time.time() > deadline + 0.5)  # what it was about to do, it has begun
    os.kill(paused, signal.SIGSTOP)
    until(lambda: fleet.done(round_id, 1))
    assert fleet.token() == 2
    found = fleet.ask(RESULTS)
    for pid in (paused, *children):
        os.kill(pid, signal.SIGCONT)
    until(lambda: "nothing of this step was written" in first.aggregator.log())
    # It serves on beside the other one, whose round its devices hear of.
    for device in fleet.devices:
        assert first.work(device)["kind"] == "learn"
    following = first.open_round()
    for device in fleet.devices:
        fleet.upload(device, 0)
    until(lambda: fleet.done(following, 0))
    assert fleet.ask(RESULTS)[: len(found)] == found
    assert fleet.ask(CLOSED) == [(2,)]
    assert fleet.token() == 2
    location = undisturbed(tmp_path / "undisturbed", fleet.devices, 3)
    assert found == fleet.postgres.ask(name_of(location), RESULTS)
