"""Uploads that no device would send: invented sounds, an entropy that is none, poison that is undone."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import save
from sqlalchemy import update

from aggregator_server.limits import CLASSES, NEW_CLASSES_OF_A_DEVICE
from aggregator_server.store.tables import DeviceRow
from aggregator_server.strategies.fedkws_ui import adaptive_local_training
from aggregator_server.strategies.registry import complete, known_settings
from aggregator_server.strategies.strategy import DeviceStatistics
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages import Choice, ClassReport, to_json
from fleet_protocol.tensors import unpack
from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, sound_impressions, tiny_bundle
from tests.support.core_fleet import CoreFleet
from tests.support.edge_process import wait_for

CAPACITY = 16


def packed(arrays, document):
    """Safetensors whose document may hold NaN and Infinity, which fleet_protocol.tensors.pack never writes."""
    return save(arrays, metadata={"auricle": json.dumps(document)})


def inventing(device, work, samples, reports, rows=1):
    """An upload that reports so many sounds that nobody made, no two of them alike."""
    rng = np.random.default_rng(device.number)
    document = asdict(device.update(work, reports=(), known=()))
    document["reports"] = [{"slot": slot, "name": None, "clips": 5} for slot in range(reports)]
    first = 1_000 * device.number
    impressions = [sound_impressions(first + slot, rows, rng).astype(np.float32) for slot in range(reports)]
    return packed(device.arrays(work, samples) | {"impressions": np.stack(impressions)}, document)


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


HOSTILE = [float("-inf"), float("inf"), float("nan"), -1.0, 20.1, 1e308]
DEVICES = [SharingDevice(1, ("c0", "c1")), SharingDevice(2, ("c1", "c2"))]


def test_such_an_upload_is_refused_by_every_strategy_and_the_field_is_named(start_aggregator):
    fleet = Fleet(start_aggregator(), DEVICES).ready(tiny_bundle())
    for strategy, kind in (("zero_shot", FakeDevice), ("fedavg", SharingDevice)):
        round_id = fleet.open_round(strategy=strategy)
        work = fleet.work(fleet.devices[0])
        for value in HOSTILE:
            device = kind(1, ("c0", "c1"))
            document = asdict(device.update(work)) | {"label_entropy": value}
            body = packed(device.arrays(work, fleet.samples), document)
            refused = fleet.upload(fleet.devices[0], work, body)
            assert refused.status_code == 422
            assert refused.json()["error"]["code"] == "malformed_update"
            assert "label_entropy" in refused.json()["error"]["message"]
        fleet.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()


def test_what_is_stored_already_leaves_the_plan_within_its_ranges(tmp_path):
    fleet = CoreFleet(tmp_path, DEVICES)
    fleet.publish_model()
    with fleet.store.writing() as session:
        session.execute(update(DeviceRow).values(clips=5, label_entropy=0.5))
        of_first = DeviceRow.device_id == DEVICES[0].device_id
        session.execute(update(DeviceRow).where(of_first).values(label_entropy=float("-inf")))
    fleet.open(strategy="fedkws_ui")
    plan = to_json(fleet.work(DEVICES[1]).plan)
    fleet.store.close()
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    assert 0 < plan["local"]["settings"]["step_factor"] <= 1e6
    assert complete("local", Choice(**plan["local"])).settings == plan["local"]["settings"]  # as a device checks it


def test_reports_of_next_to_nothing_leave_the_step_factor_within_its_range():
    local = complete("local", Choice("fedkws_ui"))
    reported = tuple(DeviceStatistics(f"{number:032x}", 1, 1e-300) for number in range(3))
    largest = known_settings("local")["fedkws_ui"]["step_factor"].high
    assert adaptive_local_training(local, reported, 10).settings["step_factor"] == largest


POISON = np.float32(9.0e5)  # larger weights are refused
SHARED = {"strategy": "fedavg", "personalisation": {"name": "none"}}


def poisoned(device, work, samples):
    """Weights as large as float32 takes, and new sounds that nobody made."""
    arrays = {name: np.full_like(array, POISON) for name, array in device.arrays(work, samples).items()}
    document = {
        "round_id": work["round_id"],
        "device_id": device.device_id,
        "features": device.settings.digest,
        "public_set": work["public_set"],
        "classes": ["c0"],
        "clips": 2**31 - 1,
        "known": [],
        "reports": [{"slot": slot, "name": f"junk {slot}", "clips": 1} for slot in range(20)],
        "metrics": {},
        "label_entropy": 1.0,
    }
    rng = np.random.default_rng(5)
    arrays["impressions"] = rng.normal(size=(20, 2, *device.settings.shape)).astype(np.float32)
    return packed(arrays, document)


def largest_weight(fleet, round_id):
    weights, _ = unpack(fleet.admin.get(f"/v1/blobs/{fleet.round(round_id)['result_weights']}").content)
    return max(float(np.abs(array).max()) for array in weights.values())


def class_ids(fleet):
    return [info["class_id"] for info in fleet.admin.get("/v1/classes").json()]


def spoiled_round(fleet):
    """A round that an attacker spoils, with a plain mean, which stops nobody."""
    attacker = fleet.devices[0]
    round_id = fleet.open_round(**SHARED, aggregation={"name": "weighted_mean"})
    for device in fleet.devices:
        work = fleet.work(device)
        body = poisoned(device, work, fleet.samples) if device is attacker else None
        fleet.upload(device, work, body).raise_for_status()
    for device in fleet.devices:
        assert fleet.learned(device, fleet.work(device)["round_id"]).status_code == 204
    return round_id


def test_a_spoiled_round_is_undone_by_one_request(start_aggregator):
    members = [SharingDevice(number, ("c0", "c1"), capacity=2 * CAPACITY) for number in (1, 2, 3)]
    fleet = Fleet(start_aggregator(), members).ready(tiny_bundle(2 * CAPACITY))
    good = fleet.run_round(**SHARED)
    spoiled = spoiled_round(fleet)
    assert len(class_ids(fleet)) == 12
    answer = fleet.admin.post(f"/v1/rounds/{good['summary']['round_id']}/restore")
    restored = answer.json()["round_id"]
    noted = fleet.admin.get("/v1/audit", params={"what": "round_restored"}).json()[0]["details"]
    assert noted == {"round_id": restored, "restores": good["summary"]["round_id"]}
    assert class_ids(fleet) == ["c0", "c1", "c2", "c3"]
    assert largest_weight(fleet, spoiled) > 1e5
    assert largest_weight(fleet, restored) < 10
    for device in fleet.devices:
        work = fleet.work(device)
        assert (work["kind"], work["round_id"]) == ("learn", restored)
        assert [info["class_id"] for info in work["classes"]] == ["c0", "c1", "c2", "c3"]
        fleet.learned(device, restored).raise_for_status()
    assert fleet.run_round(**SHARED)["weights"] == fleet.round(restored)["result_weights"]
