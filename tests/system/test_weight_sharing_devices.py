"""Whole devices as processes of their own share a model with a real aggregator."""

import numpy as np
import pytest

from edge_client.audio.recordings import read_recording
from edge_client.features.mfcc import Mfcc
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.tensors import unpack
from tests.support.aggregator_process import SETTINGS, Aggregator
from tests.support.device_fleet import device_fleet, enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

FAST = {"augmented_copies": 1, "impressions": 8, "impression_steps": 60}
EPOCHS = FAST | {"epochs": 8}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, bundles):
    """A server and two devices whose labels overlap."""
    folder = tmp_path_factory.mktemp("fleet")
    with Aggregator(folder / "server") as server, device_fleet(folder, bundles, server.start) as (_, device):
        devices = [device("first", "cnn2", ("yes", "no", "up")), device("second", "cnn2", ("no", "up", "down"))]
        for made in devices:
            made.start()
        enrolled(server, 2)
        yield server
        for made in devices:
            assert made.end() == 0
            assert "Traceback" not in made.log()


def publish(server, path) -> dict:
    with server.client() as client:
        answer = client.put("/v1/model", content=path.read_bytes())
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def published_model(fleet, bundles):
    """A shared model that nobody has trained."""
    publish(fleet, bundles["cnn1"])
    return publish(fleet, bundles["cnn2"])


@pytest.mark.parametrize(
    ("strategy", "settings", "parts"),
    [
        ("fedopt", EPOCHS, {"aggregation": {"server_learning_rate": 0.03}}),
        ("fedkws_ui", FAST | {"steps": 40, "private_epochs": 6}, {}),
    ],
)
def test_a_method_moves_the_fleet_s_accuracy(fleet, published_model, strategy, settings, parts):
    before = None
    for _ in range(2):
        found = finished(fleet, open_round(fleet, strategy=strategy, settings=settings, **parts))
        assert found["summary"]["state"] == "done", found["summary"]
        assert found["model"] == published_model["sha256"]
        before = before or found["participants"][0]["metrics"]["global_accuracy"]
    after = [device["learned_metrics"]["global_accuracy"] for device in found["participants"]]
    assert after[0] == after[1]  # both measured the same model on the same public recordings
    assert after[0] > before + 15
    with fleet.client() as client:
        assert client.get("/v1/model").json()["weights"] == found["result_weights"]
        weights, document = unpack(client.get(f"/v1/blobs/{found['result_weights']}").content)
    assert document["model"] == published_model["sha256"]
    assert all(name in weights for name in ("conv1/kernel", "head/kernel"))


def recall(server, found, bundle, folder, label, slot, classes) -> float:
    """Share of fresh clips of a label that the fleet's model names rightly among all classes."""
    with server.client() as client:
        weights, _ = unpack(client.get(f"/v1/blobs/{found['result_weights']}").content)
    model = ModelRuntime.open(bundle)
    model.set_weights(weights)
    write_clips(folder, label, 20, seed=55)
    clips = np.stack([read_recording(path, SETTINGS.sample_rate_hz) for path in sorted((folder / label).iterdir())])
    mask = (np.arange(model.manifest.capacity) < classes).astype(np.float32)
    scores = model.predict(model.normalise(Mfcc(SETTINGS)(clips[:, : SETTINGS.clip_samples])), mask)
    return float((scores.argmax(axis=1) == slot).mean())


def test_a_new_sound_gets_a_slot_of_the_shared_model_and_the_old_ones_are_not_forgotten(tmp_path, bundles, fleet_of):
    server, device = fleet_of(bundles)
    publish(server, bundles["cnn2"])
    first = device("first", "cnn2", ("yes", "no", "up")).start()
    second = device("second", "cnn2", ("no", "up", "down")).start()
    enrolled(server, 2)

    def a_round():
        found = finished(server, open_round(server, strategy="fedavg", settings=EPOCHS))
        assert found["summary"]["state"] == "done", found["summary"]
        return found

    a_round()
    before = a_round()
    write_clips(first.clips, "stop", 16, seed=7)  # the owner of the first teaches it a word
    a_round()
    with server.client() as client:
        classes = client.get("/v1/classes").json()
    assert [info["discovered_in"] for info in classes] == [None] * 4 + [3]
    found = a_round()

    def old(of):
        return of["participants"][0]["learned_metrics"]["global_accuracy"]

    assert old(found) > old(before) - 10  # on recordings of the four old classes, the new one among the answers
    assert recall(server, found, bundles["cnn2"], tmp_path / "fresh", "stop", slot=4, classes=5) >= 0.5
    maps = [made.progress().label_map for made in (first, second)]
    assert maps[0].slots[maps[0].slot_of("stop")].class_id == classes[4]["class_id"]
    assert set(maps[1].class_ids) == {info["class_id"] for info in classes}  # who never heard it knows it too


def test_mutual_learning_takes_any_architecture_and_fedavg_says_that_it_does_not(bundles, fleet_of):
    server, device = fleet_of(bundles)
    publish(server, bundles["cnn1"])
    first = device("first", "cnn2", ("yes", "no", "up", "down")).start()
    device("second", "dscnn3", ("yes", "no", "up", "down")).start()
    enrolled(server, 2)
    rounds = [finished(server, open_round(server, strategy="fedmlac", settings=EPOCHS)) for _ in range(2)]
    assert [found["summary"]["state"] for found in rounds] == ["done", "done"]
    untrained = rounds[0]["participants"][0]["metrics"]["global_accuracy"]
    assert rounds[1]["participants"][0]["learned_metrics"]["global_accuracy"] > untrained + 10
    kept = first.device_state().model.load(first.bundle)
    assert kept.bundle.manifest.architecture == "cnn2"
    open_round(server, strategy="fedavg", settings=EPOCHS, deadline_s=30, replace_model=True)
    wait_for(lambda: "'fedmlac' or 'zero_shot'" in first.log(), what="an explanation")
