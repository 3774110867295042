"""What one hostile upload did is undone by one request; devices are told with their next work."""

import numpy as np

from fleet_protocol.tensors import unpack
from tests.support.aggregator_process import Fleet, SharingDevice, tiny_bundle
from tests.support.hostile_upload import packed

CAPACITY = 32
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


def sharing_fleet(server):
    members = [SharingDevice(number, ("c0", "c1"), capacity=CAPACITY) for number in (1, 2, 3)]
    return Fleet(server, members).ready(tiny_bundle(CAPACITY))


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
    fleet = sharing_fleet(start_aggregator())
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
