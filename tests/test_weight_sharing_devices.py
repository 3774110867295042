"""Whole devices as processes of their own share a model with a real aggregator, by every method."""

import signal

import pytest
from device_fleet import bundle_of, device_fleet, enrolled, finished, open_round, wait_for
from sounds import write_clips

from fleet_protocol.tensors import unpack

FAST = {"augmented_copies": 1, "impressions": 8, "impression_steps": 60}
EPOCHS = FAST | {"epochs": 6}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, bundles):
    """Two devices with the fleet's bundle and one with another, whose labels overlap; the aggregator shares cnn2."""
    from aggregator_process import Aggregator

    folder = tmp_path_factory.mktemp("fleet")
    server = Aggregator(folder / "server")
    running = device_fleet(folder, bundles, server.start)
    _, device = next(running)
    first = device("first", "cnn2", ("yes", "no", "up")).start()
    second = device("second", "cnn2", ("no", "up", "down")).start()
    enrolled(server, 2)
    yield server, device, first, second
    for made in (first, second):
        assert made.signal(signal.SIGTERM) == 0
        assert "Traceback" not in made.log()
    next(running, None)
    server.kill()


def publish(server, path) -> dict:
    with server.client() as client:
        answer = client.put("/v1/model", content=path.read_bytes())
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def lineage(fleet, bundles):
    """A shared model that nobody has trained."""
    server, *_ = fleet
    publish(server, bundles["cnn1"])
    return publish(server, bundles["cnn2"])


@pytest.mark.parametrize(
    ("strategy", "settings", "parts"),
    [
        ("fedavg", EPOCHS, {}),
        ("fedprox", EPOCHS | {"proximal": 0.01}, {"aggregation": {"name": "trimmed_mean", "settings": {"trim": 0.2}}}),
        ("fedmmd", EPOCHS | {"discrepancy": 0.05}, {"aggregation": {"name": "median"}}),
        ("fedopt", EPOCHS, {"aggregation": {"server_learning_rate": 0.03}}),
        ("mutual", EPOCHS | {"epochs": 10}, {"selection": {"name": "uniform", "settings": {"fraction": 1.0}}}),
        ("user_invariant", FAST | {"steps": 12, "private_epochs": 6}, {}),
    ],
)
def test_every_method_moves_the_fleet_s_accuracy(fleet, lineage, strategy, settings, parts):
    server, *_ = fleet
    before = None
    for _ in range(2):
        found = finished(server, open_round(server, strategy=strategy, settings=settings, **parts))
        assert found["summary"]["state"] == "done", found["summary"]
        assert found["model"] == lineage["sha256"]
        before = before or found["participants"][0]["metrics"]["global_accuracy"]
    after = [device["learned_metrics"]["global_accuracy"] for device in found["participants"]]
    assert after[0] == after[1]  # both measured the same model on the same public recordings
    assert after[0] > before + 15
    with server.client() as client:
        assert client.get("/v1/model").json()["weights"] == found["result_weights"]
        weights, document = unpack(client.get(f"/v1/blobs/{found['result_weights']}").content)
    assert document["model"] == lineage["sha256"]
    assert all(name in weights for name in ("conv1/kernel", "head/kernel"))
