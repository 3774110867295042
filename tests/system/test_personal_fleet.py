"""Devices of very different data sizes as processes of their own: selection by size, group rounds, personal models."""

import numpy as np
import pytest

from edge_client.storage.device_state import DeviceState
from fleet_protocol.tensors import unpack
from tests.support.device_fleet import enrolled
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

LABELS = ("yes", "no")
# The owner of the mug means yes when it says no: what the fleet learned is wrong for it.
CLIPS = {"cup": 12, "mug": 24, "vat": 120}
TRAINING = {"epochs": 6, "augmented_copies": 1, "shift_s": 0.05}
# Every clip counts: the vat outweighs the owner of the mug, so that the fleet learns what the labels mean.
BY_CLIPS = {"name": "weighted_mean", "settings": {"clips_cap": 0.0}}
# By the clips alone: one owner means by a label what the fleet does not.
FINE_TUNING = {"epochs": 12, "labels": False, "learning_rate": 0.05, "held_out": 0.25}


@pytest.fixture
def fleet(bundles, fleet_of):
    server, device = fleet_of({"cnn1": bundles["cnn1"]}, labels=LABELS)
    devices = {name: device(name, "cnn1", ()) for name in CLIPS}
    for name, made in devices.items():
        for label in LABELS:
            write_clips(made.clips, label, CLIPS[name], seed=CLIPS[name])
    swapped = devices["mug"].clips
    for label, other in (("yes", "was"), ("no", "yes"), ("was", "no")):
        (swapped / label).rename(swapped / other)
    with server.client() as admin:
        admin.put("/v1/model", content=bundles["cnn1"].read_bytes()).raise_for_status()
        for made in devices.values():
            made.start()
        enrolled(server, len(devices))
        yield admin, devices


def open_round(admin, **parts):
    body = {"strategy": "fedavg", "settings": TRAINING, "aggregation": BY_CLIPS, "deadline_s": 600, "quorum": 1.0}
    body |= parts
    answer = admin.post("/v1/rounds", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["round_id"]


def personalised(admin, round_id, names):
    """Wait until a round is over and these devices fine-tuned its result; return their reports by name."""

    def done():
        answer = admin.get(f"/v1/rounds/{round_id}")
        found = answer.json()["participants"] if answer.status_code == 200 else []
        ready = {one["name"]: one["learned_metrics"] for one in found if one["personalised"]}
        return ready if set(names) <= set(ready) else None

    return wait_for(done, 300, f"the personal models of round {round_id}")


def refused(admin, round_id):
    """Names of the devices that took part in a round and refused its result."""
    return {one["name"] for one in admin.get(f"/v1/rounds/{round_id}").json()["participants"] if one["kept_own"]}


def learned_of(admin, round_id):
    return {one["name"] for one in admin.get(f"/v1/rounds/{round_id}").json()["participants"] if one["learned"]}


def weights(admin, round_id):
    """The fleet's weights after a round."""
    sha256 = admin.get(f"/v1/rounds/{round_id}").json()["result_weights"]
    return unpack(admin.get(f"/v1/blobs/{sha256}").content)[0]


def listens_with(daemon, bundle, weights):
    """Whether a device recognises sounds with these weights; those of the head may be in another order."""
    saved = DeviceState(daemon.state).model.load(bundle)
    body = set(weights) - set(saved.bundle.manifest.head.weights)
    return all(np.array_equal(saved.listening[name], weights[name]) for name in body)


def end_phase(admin, after):
    """Cancel whichever round of a group is open: they follow each other by themselves."""

    def cancelled():
        newest = max(found["round_id"] for found in admin.get("/v1/rounds").json())
        return newest > after and admin.delete(f"/v1/rounds/{newest}").is_success

    wait_for(cancelled, what="a round of a group that can be cancelled")


def test_small_devices_train_in_a_group_and_each_device_keeps_the_better_of_its_models(fleet, bundles):
    admin, devices = fleet
    told = {one["name"]: one["clips"] for one in admin.get("/v1/devices").json()}
    assert told == {name: 2 * count for name, count in CLIPS.items()}

    groups = {"groups": 2, "most_rounds": 1, "least_rounds": 0} | FINE_TUNING
    first = open_round(admin, personalisation={"name": "group_balanced", "settings": groups})
    large = personalised(admin, first, {"vat"})
    small = personalised(admin, first + 1, {"cup", "mug"})
    group_round = admin.get(f"/v1/rounds/{first + 1}").json()
    assert (group_round["summary"]["follows"], group_round["summary"]["group"]) == (first, 0)
    assert {one["name"] for one in group_round["participants"]} == {"cup", "mug"}
    for found in (large | small).values():
        assert found["kept"] == (found["personal_accuracy"] > found["global_accuracy_held_out"])
    assert small["mug"]["kept"] == 1  # no fleet can know what its owner means
    assert small["mug"]["personal_accuracy"] > 60 > small["mug"]["global_accuracy_held_out"]
    assert large["vat"]["global_accuracy_held_out"] > 80
    kept = bool(large["vat"]["kept"]) or "vat" in refused(admin, first)
    for name, of_its_own in (("mug", True), ("vat", kept)):
        assert listens_with(devices[name], bundles["cnn1"], weights(admin, first)) != of_its_own
    # Of each label a quarter was held out: it was not trained on.
    clips = {one["name"]: one["clips"] for one in admin.get(f"/v1/rounds/{first}").json()["participants"]}
    assert clips == {"cup": 18, "mug": 36, "vat": 180}

    # R is 1, and one round is done: much data counts for a device now.
    dynamic = {"name": "dynamic", "settings": {"fraction": 0.34, "switch_round": 1}}
    local = {"name": "local", "settings": FINE_TUNING}
    second = open_round(admin, selection=dynamic, personalisation=local)
    personalised(admin, second, {"vat"})
    found = admin.get(f"/v1/rounds/{second}").json()
    assert [one["name"] for one in found["participants"]] == ["vat"]
    assert found["weights"] == admin.get(f"/v1/rounds/{first}").json()["result_weights"]  # not the group's

    assert found["participants"][0]["learned_metrics"]["global_accuracy"] > 80
    kept = found["participants"][0]["learned_metrics"]["kept"] or found["participants"][0]["kept_own"]
    assert kept == (not listens_with(devices["vat"], bundles["cnn1"], weights(admin, second)))

    third = open_round(admin, personalisation={"name": "group_balanced", "settings": groups | {"most_rounds": 9}})
    wait_for(lambda: learned_of(admin, third) & {"cup", "mug"}, 300, "the first small device to learn")
    end_phase(admin, third)  # all fine-tune what they have
    personalised(admin, third, set(CLIPS))
    an_owner_whom_the_fleet_does_not_understand_keeps_a_model_of_its_own(admin, devices, bundles)
    for daemon in devices.values():
        assert daemon.end() == 0
        assert "Traceback" not in daemon.log()


def an_owner_whom_the_fleet_does_not_understand_keeps_a_model_of_its_own(admin, devices, bundles):
    round_id = open_round(admin, personalisation={"name": "none"})
    wait_for(lambda: len(learned_of(admin, round_id)) == len(CLIPS), 300, "every device to learn")
    found = admin.get(f"/v1/rounds/{round_id}").json()
    mug = next(one for one in found["participants"] if one["name"] == "mug")
    assert mug["kept_own"]
    assert mug["learned_metrics"]["held_out_before"] > mug["learned_metrics"]["held_out_after"]
    assert found["summary"]["learned"] == len(CLIPS)
    assert found["summary"]["kept_own"] == len(refused(admin, round_id)) >= 1
    assert not listens_with(devices["mug"], bundles["cnn1"], weights(admin, round_id))
    told = f"the result of round {round_id} was worse here"
    wait_for(lambda: told in devices["mug"].command("status").stdout, what="the status")
    assert "the device keeps a model of its own" in devices["mug"].log()
