"""Killed at any instant and started again, the aggregator finishes a round as if nothing had happened."""

import json
import sqlite3
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing

import numpy as np
import pytest

from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, public_set
from tests.support.checkout import run_module
from tests.support.core_fleet import CoreFleet, devices
from tests.support.edge_process import wait_for
from tests.support.embedded_words import PrototypeDevice, embedded_public_set
from tests.support.private_fleet import PrivateCoreFleet, private_devices

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("strategy", ["fedopt", "prototypes"])
def test_killed_at_any_line_of_the_closing_step_it_comes_to_the_same_bytes(tmp_path, strategy):
    if strategy == "prototypes":
        public = embedded_public_set(np.random.default_rng(7))
        fleet = CoreFleet(tmp_path / "data", devices(kind=PrototypeDevice), public=public)
    else:
        fleet = CoreFleet(tmp_path / "data", devices(kind=SharingDevice))
        fleet.publish_model()
    fleet.open(100.0, deadline_s=200, strategy=strategy)
    for device in fleet.devices:
        fleet.upload(device)
    fleet.store.close()
    outcome = killed_at(tmp_path / "data", 10)
    assert outcome["lines"] > 200
    assert outcome["undisturbed"].count("state='done'") == 1


@pytest.mark.parametrize("stage", ["shares", "contribute", "unmask"])
def test_killed_at_any_line_of_a_private_rounds_step_it_comes_to_the_same_bytes(tmp_path, stage):
    fleet = PrivateCoreFleet(tmp_path / "data", private_devices(5))
    fleet.open_private(100.0, groups=4, deadline_s=6000)
    for present in ("keys", "shares", "contribute", "unmask"):
        for device in fleet.devices:
            fleet.answer(device)
        if present == stage:
            break
        fleet.advance()
    fleet.store.close()
    outcome = killed_at(tmp_path / "data", 10)
    assert outcome["undisturbed"].count("state='done'") == (stage == "unmask")


def killed_at(data, kills, *action):
    """Kill a process at so many lines; return what tests/support/kill_at_every_step.py saw."""
    printed = run_module("tests.support.kill_at_every_step", data, kills, 7, *action)
    assert printed.returncode == 0, printed.stderr
    outcome = json.loads(printed.stdout)
    assert (outcome["killed"], outcome["others"]) == (kills, [])
    return outcome


@pytest.mark.parametrize("action", ["retire", "restore"])
def test_killed_at_any_line_of_an_undo_it_has_done_all_of_it_or_nothing(tmp_path, action):
    fleet = CoreFleet(tmp_path / "data", devices(kind=SharingDevice))
    fleet.publish_model()
    fleet.run_round(strategy="fedavg")
    fleet.store.close()
    outcome = killed_at(tmp_path / "data", 8, action)
    assert f"operation='{action}'" in outcome["undisturbed"]


def closed(fleet, round_id):
    """A round that is over; None before."""
    detail = fleet.round(round_id)
    return None if detail["summary"]["state"] == "open" else detail


def test_a_deadline_closes_a_round_that_nobody_touches_and_one_that_passed_meanwhile_at_the_start(start_aggregator):
    server = start_aggregator()
    fleet = Fleet(server, devices(2)).ready()
    untouched = fleet.open_round(deadline_s=0.5, quorum=0.5)
    summary = wait_for(lambda: closed(fleet, untouched), what="the deadline")["summary"]
    assert (summary["state"], "0 of 2" in summary["reason"]) == ("failed", True)
    round_id = fleet.open_round(deadline_s=86_400, quorum=0.5)
    device = fleet.devices[0]
    fleet.upload(device, fleet.work(device)).raise_for_status()
    server.kill()
    fleet.close()
    with closing(sqlite3.connect(server.data / "auricle.db")) as database, database:
        database.execute("UPDATE rounds SET deadline_at = ? WHERE round_id = ?", (time.time() - 1, round_id))
    server.start()
    fleet.reconnect()
    detail = wait_for(lambda: closed(fleet, round_id), what="the end of the round")
    assert detail["summary"]["state"] == "done"


def test_sigterm_sends_waiting_devices_home_and_loses_nothing(start_aggregator):
    server = start_aggregator()
    fleet = Fleet(server, [FakeDevice(1, ("c0",))]).ready()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(fleet.work, fleet.devices[0], 60) for _ in range(2)]
        wait(asked, return_when=FIRST_COMPLETED)  # of one device one request waits: the server has the other one
        assert server.stop() == 0
        assert [one.result(180) for one in asked] == [None, None]
    fleet.close()
    server.start()
    fleet.reconnect()
    assert len(fleet.admin.get("/v1/devices").json()) == 1
    assert fleet.admin.get("/v1/public-set").json()["samples"] == len(public_set().labels)
