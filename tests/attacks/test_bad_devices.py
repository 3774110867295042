"""Devices that send values which no honest device has: a real server refuses them, or does not let them count."""

from dataclasses import asdict

import numpy as np

from fleet_protocol.numbers.tensors import pack, unpack
from tests.support.aggregator_process import Fleet, SharingDevice, tiny_bundle
from tests.support.core_fleet import devices

CLASSES = ("c0", "c1", "c2", "c3")


def body(device, work, change=None, **document):
    """An upload whose arrays were changed, and whose document says something else."""
    arrays = device.arrays(work, 24)
    if change is not None:
        change(arrays)
    return pack(arrays, asdict(device.update(work, **document)))


def refusal(fleet, device, work, data):
    response = fleet.upload(device, work, data)
    assert response.status_code == 422, response.text
    assert response.json()["error"]["code"] == "malformed_update"
    return response.json()["error"]["message"]


IMPOSSIBLE = [
    (lambda a: a["scores"].__imul__(1e30), "probabilities, from 0 to 1"),
    (lambda a: a["scores"].__isub__(1), "probabilities, from 0 to 1"),
    (lambda a: a["scores"].fill(1), "sum to at most 1"),
    (lambda a: a["impressions"].__imul__(1e6), "public recordings' features allow"),
    (lambda a: a["impressions"].__itruediv__(1e-30), "public recordings' features allow"),
    (lambda a: a.update(profiles=np.full((3, 24), 7, np.float32)), "cosines are from -1 to 1"),
]


def test_scores_and_descriptions_that_no_device_computes_are_refused(start_aggregator):
    fleet = Fleet(start_aggregator(), devices(2)).ready()
    round_id = fleet.open_round()
    liar, honest = fleet.devices
    work = fleet.work(liar)
    for change, words in IMPOSSIBLE:
        assert words in refusal(fleet, liar, work, body(liar, work, change))
    for device in (liar, honest):  # the device may send a right one, and the round goes on
        fleet.upload(device, fleet.work(device)).raise_for_status()
    assert fleet.work(honest)["kind"] == "learn"
    assert fleet.round(round_id)["summary"]["state"] == "done"


def far_off(arrays):
    for name in arrays:
        if name.startswith("weights/"):
            arrays[name] *= np.float32(1e4)


def played(fleet, liar, **request):
    """Open a round in which one device lies, and return the round once it is over."""
    round_id = fleet.open_round(strategy="fedavg", personalisation={"name": "none"}, **request)
    for device in fleet.devices:
        work = fleet.work(device, wait_s=0)
        if work is not None and work["kind"] == "contribute":
            change = far_off if device is liar else None
            fleet.upload(device, work, body(device, work, change, clips=40)).raise_for_status()
    for device in fleet.devices:
        work = fleet.work(device)
        assert (work["kind"], work["round_id"]) == ("learn", round_id)
        fleet.learned(device, round_id).raise_for_status()
    return fleet.round(round_id)


class Alike(SharingDevice):
    """A device whose weights are near those of all others."""

    def arrays(self, work, samples):
        rng = np.random.default_rng([self.number, work["round_id"]])
        base = SharingDevice(99, self.classes).arrays({"round_id": 1}, samples)
        return {name: (array + 0.01 * rng.normal(size=array.shape)).astype(np.float32) for name, array in base.items()}


def test_a_device_that_lies_in_every_round_is_screened_then_quarantined_and_an_operator_sees_why(start_aggregator):
    fleet = Fleet(start_aggregator(), [Alike(number, CLASSES) for number in range(1, 7)]).ready(tiny_bundle())
    liar = fleet.devices[2]

    def shown():
        return next(d for d in fleet.admin.get("/v1/devices").json() if d["device_id"] == liar.device_id)["conduct"]

    for number in range(3):
        found = played(fleet, liar)
        assert list(found["aggregation"]["screened"]) == [liar.device_id]
        assert found["aggregation"]["screened"][liar.device_id]["distances"]["all layers"] > 1000
        assert found["quarantined"] == ([liar.device_id] if number == 2 else [])
        weights, _ = unpack(fleet.admin.get(f"/v1/blobs/{found['result_weights']}").content)
        assert max(np.abs(array).max() for array in weights.values()) < 10
    conduct = shown()
    assert (conduct["screened"], conduct["counted"], conduct["refused"]) == (3, 0, 0)
    assert conduct["quarantined_at"] is not None
    assert "3 of its uploads stood out" in conduct["reason"]
    assert "head" in conduct["reason"]

    found = played(fleet, liar)  # it is not waited for, does not count for the quorum, and learns
    assert liar.device_id not in [participant["device_id"] for participant in found["participants"]]
    assert found["summary"]["uploaded"] == found["summary"]["selected"] == 5
    assert found["aggregation"]["screened"] == {}

    released = fleet.admin.post(f"/v1/devices/{liar.device_id}/release").json()["conduct"]
    assert (released["quarantined_at"], released["reason"], released["suspicion"]) == (None, None, 0)
    assert released["screened"] == 3
    assert played(fleet, None)["summary"]["uploaded"] == 6
    assert shown()["counted"] == 1
    whats = [entry["what"] for entry in fleet.admin.get("/v1/audit").json()]
    assert whats.count("device_quarantined") == whats.count("device_released") == 1


def test_refused_uploads_count_once_a_round_and_a_round_does_not_wait_for_a_device_in_quarantine(start_aggregator):
    fleet = Fleet(start_aggregator(), [SharingDevice(number, CLASSES) for number in range(1, 5)]).ready(tiny_bundle())
    liar, *honest = fleet.devices
    for number in range(3):
        round_id = fleet.open_round(strategy="fedavg", deadline_s=86_400)
        for device in honest:
            fleet.upload(device, fleet.work(device)).raise_for_status()
        work = fleet.work(liar)
        largest = body(liar, work, lambda arrays: arrays["weights/body/kernel"].fill(3.4e38))
        for _ in range(3):
            refusal(fleet, liar, work, largest)
            conduct = fleet.clients[liar.number].get("/v1/devices/me").json()["conduct"]
            assert conduct["refused"] == number + 1
            assert "at most 1e+06" in conduct["refusal"]
            if number == 2:
                break
        if number < 2:  # an open round waits for it
            assert fleet.round(round_id)["summary"]["state"] == "open"
            fleet.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()
    for device in fleet.devices:
        assert fleet.work(device)["kind"] == "learn"  # no longer waited for, and it learns
    assert fleet.round(round_id)["summary"]["state"] == "done"
    response = fleet.upload(liar, work, body(liar, work))
    assert response.status_code in (403, 409)
