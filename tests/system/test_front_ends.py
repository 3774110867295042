"""Fleets whose front end is a network of a stream, or one of which a part trains: whole devices learn together.

Those of tests/system/test_prototypes.py have the ready one.
"""

import numpy as np
import pytest

from fleet_protocol.bundle import read_bundle
from tests.support.device_fleet import enrolled, finished, open_round

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_devices_with_an_embedding_of_a_stream_learn_by_scores_and_by_weights(speech_bundles, fleet_of):
    bundle = speech_bundles / "linear.auricle"
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
