"""A fleet whose front end is a network: whole devices learn by scores and by weights, and discover a class."""

from pathlib import Path

import numpy as np
import pytest

from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.sounds import write_clips

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(params=["base", "speech_embedding"])
def bundle(request) -> Path:
    """A linear head on a network that takes whole clips, with outputs for what is no label, and on one of a stream."""
    if request.param == "base":
        return find_bundle("base")
    return request.getfixturevalue("speech_bundles") / "linear.auricle"


def test_devices_with_an_embedding_take_part_in_every_kind_of_round(bundle, fleet_of):
    server, device = fleet_of({"linear": bundle})
    with server.client() as client:
        client.put("/v1/model", content=bundle.read_bytes()).raise_for_status()
    first = device("first", "linear", ("yes", "no", "up")).start()
    device("second", "linear", ("no", "up", "down")).start()
    enrolled(server, 2)
    fast = {"epochs": 30, "augmented_copies": 1, "learning_rate": 0.1, "impressions": 8, "impression_steps": 60}

    def accuracies(strategy):
        opened = open_round(server, strategy=strategy, settings=fast, deadline_s=1200, replace_model=True)
        found = finished(server, opened, seconds=900)
        assert found["summary"]["state"] == "done", found["summary"]
        return [taken["learned_metrics"]["global_accuracy"] for taken in found["participants"]]

    assert min(accuracies("zero_shot")) > 60
    assert min(accuracies("fedavg")) > 60
    write_clips(first.clips, "stop", 16, seed=7)  # the owner of the first teaches it a sound
    accuracies("fedavg")
    with server.client() as client:
        classes = client.get("/v1/classes").json()
    assert [info["discovered_in"] is not None for info in classes] == [False] * 4 + [True]
    assert "Traceback" not in first.log()


def test_devices_train_the_last_block_of_a_pretrained_network_together(embedding_bundles, fleet_of):
    path = embedding_bundles / "last-block.auricle"
    server, device = fleet_of({"last": path})
    with server.client() as client:
        client.put("/v1/model", content=path.read_bytes()).raise_for_status()
    first = device("first", "last", ("yes", "no", "up")).start()
    device("second", "last", ("no", "up", "down")).start()
    enrolled(server, 2)
    fast = {"epochs": 4, "augmented_copies": 1, "impressions": 8, "impression_steps": 20}
    for _ in range(2):
        found = finished(server, open_round(server, strategy="fedavg", settings=fast))
        assert found["summary"]["state"] == "done", found["summary"]
    learned = [taken["learned_metrics"]["global_accuracy"] for taken in found["participants"]]
    assert min(learned) > 60
    assert "Traceback" not in first.log()
    assert first.end() == 0
    manifest = read_bundle(path).manifest
    assert {layer.name for layer in manifest.layers} == {"block2a", "block2b", "block2c", "head"}
    stored = first.device_state().model.load(path).bundle.weights
    assert {name: array.shape for name, array in stored.items()} == manifest.weight_shapes
    assert np.abs(stored["block2a/kernel"] - read_bundle(path).weights["block2a/kernel"]).max() > 1e-4
