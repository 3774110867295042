"""A private round of thirty real devices over TLS, ten of which are killed: the result is the plain mean of twenty."""

import signal
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from edge_client.fleet.joining import join
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.messages.invitation_link import InvitationLink
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from tests.support.commands import answer
from tests.support.device_fleet import device_fleet, finished, open_round
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow
WORDS = ("yes", "no", "up", "down")
DEVICES, GROUP, LOST = 30, 15, 5  # the last of each group: exactly a third


def answered(server, stage):
    """Devices of which the server has what they sent in a stage."""
    with closing(sqlite3.connect(f"file:{server.data}/auricle.db?mode=ro", uri=True)) as database:
        found = database.execute(f"SELECT device_id FROM private_parts WHERE {stage} IS NOT NULL").fetchall()
    return {device_id for (device_id,) in found}


def test_thirty_devices_of_which_ten_are_killed_come_to_the_plain_mean_of_twenty_over_tls(
    tmp_path, pretrained_bundle, start_aggregator
):
    def start():
        return start_aggregator("server", "--tls", "auto")

    settings = read_bundle(pretrained_bundle).manifest.feature_settings
    with device_fleet(tmp_path, {"base": pretrained_bundle}, start, WORDS, own=3) as (server, make):
        link = InvitationLink.parse(answer("invite", "--devices", DEVICES, "--data", server.data)["link"])
        words_of, devices = {}, {}
        for number in range(DEVICES):
            words = (WORDS[number % 4], WORDS[(number + 1) % 4])
            made = make(f"device-{number}", "base", words)
            join(made.config, link, insecure_http=False)
            devices[made.device_state().identity.load().device_id], words_of[made] = made, words
        *present, late = devices.values()
        for device in present:
            device.start()
        # No stage ends before its time while a device lacks: so the first wait for who comes late, others for the dead.
        plan = {"selection": {"seen_within_s": 0}, "aggregation": {"centre": "mean"}, "deadline_s": 3_000}
        round_id = open_round(server, strategy="prototypes", settings={}, private={"groups": GROUP}, **plan)
        killed = set()

        def kill(device_ids):
            for device_id in device_ids:
                devices[device_id].end(signal.SIGKILL)
                killed.add(device_id)

        wait_for(lambda: len(answered(server, "keys")) >= len(present), what="keys of all that are there")
        kill(sorted(answered(server, "keys"))[:4])
        late.start()
        with server.client() as client:
            groups = wait_for(lambda: client.get(f"/v1/rounds/{round_id}").json()["private"]["groups"], what="groups")
            wait_for(lambda: len(answered(server, "shares")) >= DEVICES - len(killed), what="shares of all others")
            for group in groups:
                alive = sorted(set(group["devices"]) - killed)
                kill(alive[: LOST - (GROUP - len(alive))])
            for device_id in killed:
                client.delete(f"/v1/devices/{device_id}").raise_for_status()
            detail = finished(server, round_id, learned=False)
            assert detail["summary"]["state"] == "done", detail["summary"]["reason"]
            found = FleetPrototypes.unpack(client.get(f"/v1/blobs/{detail['result_prototypes']}").content)
            names = {one["class_id"]: one["name"] for one in client.get("/v1/classes").json()}
        assert [group["outcome"] for group in detail["private"]["groups"]] == ["10 of 15 devices"] * 2
        assert {one["device_id"] for one in detail["participants"] if one["upload"] is None} == killed
        survivors = [device for device_id, device in devices.items() if device_id not in killed]
        means = {names[class_id]: mean for class_id, mean in zip(found.class_ids, found.means, strict=True)}
        assert set(means) == set(WORDS)
        for word, mean in means.items():
            plain = np.mean([one.mean_of(word, settings) for one in survivors if word in words_of[one]], axis=0)
            np.testing.assert_allclose(mean, plain, rtol=1e-6, atol=2e-6)  # fixed point rounds by 2^-19 a device
        assert all("Traceback" not in device.log() for device in survivors)
