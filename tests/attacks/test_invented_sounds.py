"""Uploads that report sounds that nobody made neither fill the fleet with classes nor freeze its rounds."""

import pytest

from aggregator_server.limits import CLASSES, NEW_CLASSES_OF_A_DEVICE
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages import ClassReport
from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, tiny_bundle
from tests.support.edge_process import wait_for
from tests.support.hostile_upload import inventing

CAPACITY = 16


@pytest.fixture
def fleet(start_aggregator):
    devices = [SharingDevice(number, ("c0", "c1"), capacity=CAPACITY) for number in (1, 2, 3)]
    return Fleet(start_aggregator(), devices).ready(tiny_bundle(CAPACITY))


def test_an_upload_with_forty_invented_sounds_is_refused(fleet):
    fleet.open_round(strategy="fedavg")
    attacker = fleet.devices[0]
    work = fleet.work(attacker)
    refused = fleet.upload(attacker, work, inventing(attacker, work, fleet.samples, 40))
    assert refused.status_code == 422
    assert refused.json()["error"]["code"] == "malformed_update"
    assert "40 new sounds" in refused.json()["error"]["message"]


def test_one_upload_brings_eight_classes_at_most(fleet):
    round_id = fleet.open_round()
    for device in fleet.devices:
        work, scoring = fleet.work(device), FakeDevice(device.number, device.classes)
        invented = device.number == 1
        body = inventing(scoring, work, fleet.samples, REPORTS) if invented else scoring.upload(work, fleet.samples)
        fleet.upload(device, work, body).raise_for_status()
    assert fleet.work(fleet.devices[0])["kind"] == "learn"
    assert len(fleet.admin.get("/v1/classes").json()) == 4 + NEW_CLASSES_OF_A_DEVICE
    assert len(fleet.round(round_id)["discovery"]["left_open"]) == REPORTS - NEW_CLASSES_OF_A_DEVICE


def test_sounds_that_the_shared_model_has_no_room_for_become_no_classes_and_rounds_go_on(fleet):
    """They come in a round without the shared model, whose head they need not fit."""
    round_id = fleet.open_round()
    for device in fleet.devices:
        work, scoring = fleet.work(device), FakeDevice(device.number, device.classes)
        fleet.upload(device, work, inventing(scoring, work, fleet.samples, REPORTS)).raise_for_status()
    for device in fleet.devices:
        work = wait_for(lambda device=device: fleet.work(device), what="the round's result")
        fleet.learned(device, work["round_id"]).raise_for_status()
    shown = fleet.round(round_id)
    assert shown["summary"]["state"] == "done"
    assert len(fleet.admin.get("/v1/classes").json()) == CAPACITY
    discovery = shown["discovery"]
    assert len(discovery["groups"]) == CAPACITY - 4
    assert discovery["left_open"]
    assert f"no room beyond {CAPACITY} classes" in discovery["limits"][0]
    assert fleet.run_round(strategy="fedavg", replace_model=True)["summary"]["state"] == "done"


def test_a_round_in_which_attackers_invent_hundreds_of_sounds_ends_and_looks_at_those_of_every_device(start_aggregator):
    """Hundreds are compared with one another; those of one device are not taken for one."""
    attackers = [FakeDevice(number, ("c0", "c1")) for number in range(1, 16)]
    honest = FakeDevice(16, ("c0", "c1"), reports=(ClassReport(3, None, 5),), known=("c0",), sounds={3: 7})
    fleet = Fleet(start_aggregator(), [*attackers, honest]).ready()
    round_id = fleet.open_round()
    for device in fleet.devices:
        work = fleet.work(device)
        body = None if device is honest else inventing(device, work, fleet.samples, REPORTS)
        fleet.upload(device, work, body).raise_for_status()
    assert wait_for(lambda: fleet.work(honest), what="the round's result")["kind"] == "learn"
    discovery = fleet.round(round_id)["discovery"]
    assert len(discovery["reports"]) == len(attackers) * REPORTS + 1 > 256
    assert not any("wait for a later round" in limit for limit in discovery["limits"])
    recognised = [
        discovery["reports"][index]["device_id"] for group in discovery["groups"] for index in group["members"]
    ]
    assert honest.device_id in recognised
    assert len(fleet.admin.get("/v1/classes").json()) <= CLASSES
