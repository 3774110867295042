"""A device that sends sums alone: a private round of daemons, of which one is killed and comes back; an open one."""

import signal

import numpy as np
import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from tests.support.device_fleet import device_fleet, enrolled, finished, open_round
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow

DEVICES = 5


def test_daemons_of_which_one_is_killed_come_to_the_plain_mean_and_one_of_sums_alone_refuses_an_open_round(
    tmp_path, pretrained_bundle, start_aggregator
):
    settings = read_bundle(pretrained_bundle).manifest.feature_settings
    with device_fleet(tmp_path, {"base": pretrained_bundle}, start_aggregator, ("yes", "no"), own=3) as (server, make):
        devices = [make(f"device-{number}", "base", ("yes",)) for number in range(DEVICES)]
        careful, killed = devices[:2]
        careful.config.write_text(careful.config.read_text() + "[privacy]\nonly_sums = true\n")
        for device in devices:
            device.start()
        enrolled(server, DEVICES)
        round_id = open_round(server, strategy="prototypes", settings={}, private={"groups": 4})
        wait_for(lambda: "answered shares" in killed.log(), what="shares of the device that is killed")
        killed.end(signal.SIGKILL)
        killed.start()
        found = finished(server, round_id)
        assert found["summary"]["state"] == "done", found["summary"]["reason"]
        for device in devices:
            sent = device.device_state().blobs.prototypes(settings)
            assert len(sent.class_ids) == 1
            expected = np.mean([other.mean_of("yes", settings) for other in devices], axis=0)
            np.testing.assert_allclose(sent.means[0], expected, atol=1e-4)
            assert device.device_state().private_rounds.load().secret == ""

        open_round(server, strategy="prototypes", settings={})
        wait_for(lambda: "is not private: the device sends nothing" in careful.log(), what="its refusal")
        with server.client() as client:

            def says_why():
                (info,) = [one for one in client.get("/v1/devices").json() if one["name"] == "device-0"]
                return "private rounds alone" in info["trouble"]

            wait_for(says_why, what="a word about it at the server")
