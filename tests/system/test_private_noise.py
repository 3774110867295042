"""A private round with noise, of daemons of which one is killed; and a budget that refuses what would exceed it."""

import signal

import numpy as np
import pytest

from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.secure_sums.bounded_sums import directions_of
from tests.support.commands import answer
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow
DEVICES = 7


def test_daemons_find_a_word_through_the_noise_and_one_whose_budget_is_spent_sends_nothing_more(fleet_of):
    bundle = find_bundle("base_int8")
    manifest = read_bundle(bundle).manifest
    server, make = fleet_of({"base": bundle}, own=3)
    devices = [make(f"device-{number}", "base", ("yes",)) for number in range(DEVICES)]
    careful, killed = devices[:2]
    for device in devices:
        with device.config.open("a") as config:
            config.write("teach_epochs = 5\n" + ("[privacy]\nepsilon = 100\n" if device is careful else ""))
        device.start()
    enrolled(server, DEVICES)
    opened = answer("round", "start", "--private", "7", "--epsilon", "100", "--deadline", "300s", "--data", server.data)
    wait_for(lambda: "answered shares" in killed.log(), what="shares of the device that is killed")
    killed.end(signal.SIGKILL)
    killed.start()
    found = finished(server, opened["round_id"])
    assert found["summary"]["state"] == "done", found["summary"]["reason"]
    assert found["private"]["epsilon"] == pytest.approx(100)

    settings, statistics = manifest.feature_settings, manifest.embedding_statistics
    means = []
    for device in devices:
        clips = Recordings(device.clips, settings)
        means.append(open_front_end(settings)(clips.load(clips.clips("yes")))[:, 0].mean(axis=0))
    plain = directions_of(statistics, np.stack(means)).sum(axis=0)
    sent = careful.device_state().blobs.prototypes(settings)
    assert len(sent.class_ids) == 1
    assert directions_of(statistics, sent.means[0])[0] @ plain / np.linalg.norm(plain) > 0.6
    uploaded = [one["upload"] is not None for one in found["participants"]]
    told = [device.device_state().privacy.load() for device in devices]
    assert sorted(one.noisy for one in told) == sorted(map(int, uploaded))  # once each, also by who was killed
    assert sum(uploaded) >= DEVICES - 1
    assert not any(one.open for one in told)
    privacy = wait_for(lambda: careful.status()["privacy"], what="what was told in its status")
    assert privacy["words"].startswith(
        "so far the fleet's rounds can have told epsilon 100 of at most 100, at delta 1e-05"
    )

    second = open_round(server, strategy="prototypes", settings={}, private={"groups": 6, "epsilon": 100})
    wait_for(lambda: "and its owner allows 100" in careful.log(), what="its refusal")
    with server.client() as client:
        client.delete(f"/v1/rounds/{second}").raise_for_status()
    open_round(server, strategy="prototypes", settings={})
    wait_for(lambda: "is not private: the device sends nothing" in careful.log(), what="its refusal of an open round")
    assert careful.device_state().privacy.load().noisy == 1
    assert all("Traceback" not in device.log() for device in devices)
