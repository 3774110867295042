"""Devices of two architectures as processes of their own, in rounds of weights and scores at a real aggregator."""

import signal

import pytest

from fleet_protocol.public_set import PublicSet, unpack_consensus
from fleet_protocol.tensors import unpack
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

SETTINGS = {"augmented_copies": 1, "impressions": 8, "impression_steps": 60, "epochs": 6}
REQUEST = {
    "strategy": "recommended",
    "settings": SETTINGS,
    "other_networks": {"name": "zero_shot", "settings": SETTINGS},
    "deadline_s": 600,
}
DEVICES = {
    "weights-1": ("cnn2", ("yes", "no")),
    "weights-2": ("cnn2", ("no", "up")),
    "scores-1": ("cnn1", ("yes", "up")),
    "scores-2": ("cnn1", ("yes", "no")),
}


@pytest.fixture
def fleet(bundles, fleet_of):
    """Two devices with the shared model's network, two with another."""
    server, device = fleet_of(bundles, labels=("yes", "no", "up"))
    with server.client() as client:
        client.put("/v1/model", content=bundles["cnn2"].read_bytes()).raise_for_status()
        devices = {name: device(name, *what).start() for name, what in DEVICES.items()}
        enrolled(server, len(devices))
        yield server, client, devices


def learned_by(client, round_id, names):
    """Wait until a round is over and these devices learned from its result; return it."""

    def done():
        found = client.get(f"/v1/rounds/{round_id}").json()
        learned = {one["name"] for one in found["participants"] if one["learned"]}
        return found if found["summary"]["state"] != "open" and names <= learned else None

    return wait_for(done, 300, f"the devices to learn from round {round_id}")


def classes_of(device):
    """The classes that a device has a slot for."""
    return set(device.progress().label_map.class_ids)


def blob(client, sha256):
    return client.get(f"/v1/blobs/{sha256}").raise_for_status().content


def test_one_round_holds_both_kinds_and_what_either_is_taught_becomes_a_class_of_all(fleet):
    server, client, devices = fleet
    first = finished(server, open_round(server, **REQUEST))
    assert first["summary"]["state"] == "done", first["summary"]
    followed = {one["name"]: one["strategy"] for one in first["participants"]}
    assert followed == {name: "fedavg" if "weights" in name else "zero_shot" for name in DEVICES}
    assert set(first["accuracies"]) == {one["device_id"] for one in first["participants"] if "scores" in one["name"]}

    write_clips(devices["weights-1"].clips, "down", 16, seed=7)  # their owners teach them
    write_clips(devices["scores-1"].clips, "stop", 16, seed=8)
    devices["scores-2"].end(signal.SIGKILL)  # for good
    second_id = open_round(server, **REQUEST, new_classes=2)  # melodies are too much alike to be told apart unasked
    devices["scores-1"].end(signal.SIGKILL)  # wherever it is in its work
    devices["scores-1"].start()
    absent = next(one["device_id"] for one in first["participants"] if one["name"] == "scores-2")
    client.delete(f"/v1/devices/{absent}").raise_for_status()
    present = {name: device for name, device in devices.items() if name != "scores-2"}
    second = learned_by(client, second_id, set(present))
    assert (second["summary"]["state"], second["summary"]["uploaded"]) == ("done", 3), second["summary"]

    new = [info["class_id"] for info in client.get("/v1/classes").json() if info["discovered_in"] == second_id]
    assert len(new) == 2
    for device in present.values():
        assert set(new) <= classes_of(device)
    grown = PublicSet.unpack(blob(client, second["result_public_set"]))
    scores, class_ids = unpack_consensus(blob(client, second["result_consensus"]))
    assert scores.shape == (len(grown.labels), len(grown.classes))
    assert class_ids == grown.class_ids
    _, document = unpack(blob(client, second["result_weights"]))
    assert tuple(document["classes"]) == grown.class_ids
    assert second["weights"] == first["result_weights"]
    for one in second["participants"]:  # every device judged what the round made of its model
        assert one["name"] == "scores-2" or {"public_after", "held_out_after"} & set(one["learned_metrics"]), one
    for device in present.values():
        assert device.end() == 0
        assert "Traceback" not in device.log()
