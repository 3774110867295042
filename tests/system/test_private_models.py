"""Private rounds of weights and of scores by daemons: what they trained goes into sums alone, and comes back."""

import numpy as np
import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.messages.public_set import unpack_consensus
from fleet_protocol.numbers.tensors import unpack
from tests.support.device_fleet import device_fleet, enrolled, finished, open_round

pytestmark = pytest.mark.slow


def test_four_daemons_train_in_a_round_of_weights_and_in_one_of_scores(tmp_path, bundles, start_aggregator):
    with device_fleet(tmp_path, bundles, start_aggregator, ("yes", "no"), own=6) as (server, make):
        devices = [make(f"device-{number}", "cnn2", ("yes", "no")) for number in range(4)]
        for device in devices:
            device.config.write_text(device.config.read_text() + "[privacy]\nonly_sums = true\n")
            device.start()
        with server.client() as client:
            client.put("/v1/model", content=bundles["cnn2"].read_bytes()).raise_for_status()
            enrolled(server, 4)

            def blob(digest):
                return client.get(f"/v1/blobs/{digest}").raise_for_status().content

            for strategy in ("fedavg", "zero_shot"):
                settings = {"epochs": 12, "augmented_copies": 1}
                opened = open_round(server, strategy=strategy, settings=settings, private={"groups": 4})
                found = finished(server, opened)
                assert found["summary"]["state"] == "done", found["summary"]["reason"]
                assert [group["outcome"] for group in found["private"]["groups"]] == ["4 of 4 devices"]
                if strategy == "fedavg":
                    weights = unpack(blob(found["result_weights"]))[0]
                    before = read_bundle(bundles["cnn2"]).weights
                    assert all(np.isfinite(array).all() for array in weights.values())
                    assert not any(np.array_equal(weights[name], before[name]) for name in before)
                else:
                    consensus, _ = unpack_consensus(blob(found["result_consensus"]))
                    labels = np.repeat([0, 1], len(consensus) // 2)
                    assert (consensus.argmax(axis=1) == labels).mean() > 0.8
        assert all("Traceback" not in device.log() for device in devices)
