"""Several processes serve one fleet: rounds run as with one, and go on whichever of them is killed."""

import os
import signal
import time
from pathlib import Path

import pytest

from benchmarks.processes import children
from tests.support.aggregator_process import Aggregator, FakeDevice, Fleet
from tests.support.dashboard_visitor import Visitor
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow
WORKERS = 3


def serving(aggregator: Aggregator) -> list[int]:
    """The workers: children of the parent that listen, unlike the one that keeps track of shared resources."""
    found = []
    for pid in sorted(children(aggregator.process.pid)):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"spawn_main" in command:
            found.append(pid)
    return found


def start(folder: Path, devices: int = 6) -> Fleet:
    aggregator = Aggregator(folder, "--workers", str(WORKERS)).start()
    fleet = Fleet(aggregator, [FakeDevice(number, ("c0", "c1")) for number in range(1, devices + 1)])
    fleet.publish().raise_for_status()
    fleet.enrol()
    return fleet


@pytest.fixture
def fleet(tmp_path):
    fleet = start(tmp_path / "data")
    yield fleet
    fleet.close()
    fleet.aggregator.stop()


def test_a_round_leads_to_the_same_bytes_as_with_one_process(fleet, tmp_path):
    found = [fleet.run_round() for _ in range(2)]
    alone = Fleet(Aggregator(tmp_path / "alone").start(), fleet.devices)
    alone.publish().raise_for_status()
    alone.enrol()
    expected = [alone.run_round() for _ in range(2)]
    assert [one["result_consensus"] for one in found] == [one["result_consensus"] for one in expected]
    alone.close()
    alone.aggregator.stop()


def stays_signed_in(aggregator: Aggregator, secret: str) -> bool:
    """Whether a session is known, by connections of its own, which any worker may take."""
    found = set()
    for _ in range(3 * WORKERS):
        visitor = Visitor(aggregator, Cookie=f"auricle={secret}")
        found.add(visitor.get("/").status_code)
        visitor.close()
    return found == {200}


def test_the_fleet_is_served_whichever_worker_is_killed(fleet):
    visitor = Visitor(fleet.aggregator)
    visitor.sign_in()
    secret = visitor.client.cookies["auricle"]
    visitor.close()
    for victim in range(WORKERS):
        round_id = fleet.open_round()
        for device in fleet.devices[:3]:
            fleet.upload(device, fleet.work(device)).raise_for_status()
        before = wait_for(lambda: len(found := serving(fleet.aggregator)) == WORKERS and found, what="all workers")
        os.kill(before[victim], signal.SIGKILL)
        while len(set(serving(fleet.aggregator)) - set(before)) < 1:
            time.sleep(0.05)
        fleet.close()
        fleet.reconnect()  # connections of the killed worker are gone
        assert stays_signed_in(fleet.aggregator, secret)
        for device in fleet.devices[3:]:
            fleet.upload(device, fleet.work(device)).raise_for_status()
        for device in fleet.devices:
            assert (work := fleet.work(device)) is not None
            assert (work["kind"], work["round_id"]) == ("learn", round_id)
            fleet.learned(device, round_id).raise_for_status()


def test_workers_end_with_their_parent_and_the_folder_is_free(fleet, tmp_path):
    workers = serving(fleet.aggregator)
    fleet.aggregator.kill()
    for pid in workers:
        while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.05)
    fleet.aggregator.start()
    fleet.close()
    fleet.reconnect()
    assert fleet.run_round()["summary"]["state"] == "done"


def test_it_stops_when_it_is_asked_to(fleet):
    workers = serving(fleet.aggregator)
    fleet.open_round()
    assert fleet.aggregator.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
