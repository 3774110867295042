"""A private round of nine real devices, three of which are killed: the result is the plain sum of the six."""

import signal
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import unpack
from tests.support.commands import answer
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow
VOTE_CAP = 3


def sharing(server):
    """Devices whose shares the server has."""
    with closing(sqlite3.connect(f"file:{server.data}/auricle.db?mode=ro", uri=True)) as database:
        found = database.execute("SELECT device_id FROM private_parts WHERE shares IS NOT NULL").fetchall()
    return {device_id for (device_id,) in found}


def votes_of_open_round(server):
    """What each device says when it is asked openly: {class: [(mean, clips)]}."""
    detail = finished(server, open_round(server, strategy="prototypes", settings={}, quorum=1.0), learned=False)
    with closing(sqlite3.connect(server.data / "auricle.db")) as database:
        query = "SELECT result_server_state FROM rounds WHERE round_id = ?"
        ((state,),) = database.execute(query, (detail["summary"]["round_id"],))
    arrays, _ = unpack((server.data / "blobs" / state[:2] / state).read_bytes())
    votes = {}
    for name, mean, clips in zip(arrays["classes"], arrays["prototypes"], arrays["counts"], strict=True):
        votes.setdefault(name.tobytes().rstrip(b"\0").decode(), []).append((mean[0].astype(np.float64), float(clips)))
    return votes


def test_nine_devices_of_which_three_are_killed_after_their_shares_come_to_the_plain_sum_of_six(fleet_of):
    server, device = fleet_of({"base": find_bundle("base_int8")}, own=4)
    words = ("yes", "no", "up", "down")
    devices = [device(f"d{n}", "base", (words[n % 4], words[(n + 1) % 4])) for n in range(9)]
    ids = {made: made.device_state().identity.load().device_id for made in devices}
    for made in devices:
        with made.config.open("a") as config:
            config.write("teach_epochs = 5\n")
        made.start()
    enrolled(server, len(devices))
    opened = answer("round", "start", "--private", "8", "--deadline", "100s", "--aggregation",
                    "prototype_mean:centre=mean", "--data", server.data)  # fmt: skip
    killed = []
    while len(killed) < 3:
        ready = wait_for(lambda: [made for made in devices if made not in killed and ids[made] in sharing(server)])
        ready[0].end(signal.SIGKILL)
        killed.append(ready[0])
    gone = {ids[made] for made in killed}
    detail = finished(server, opened["round_id"], learned=False)
    assert detail["summary"]["state"] == "done", detail["summary"]["reason"]
    assert {one["device_id"] for one in detail["participants"] if one["upload"] is None} == gone
    assert [group["outcome"] for group in detail["private"]["groups"]] == ["6 of 9 devices"]
    with server.client() as client:
        found = FleetPrototypes.unpack(client.get(f"/v1/blobs/{detail['result_prototypes']}").content)
        for device_id in gone:
            client.delete(f"/v1/devices/{device_id}").raise_for_status()
    votes = votes_of_open_round(server)
    assert set(found.class_ids) == set(votes)
    for class_id, mean in zip(found.class_ids, found.means, strict=True):
        weights = [min(clips, VOTE_CAP) for _, clips in votes[class_id]]
        plain = np.average([row for row, _ in votes[class_id]], axis=0, weights=weights)
        np.testing.assert_allclose(mean[0], plain, atol=2e-4)
    assert all("Traceback" not in made.log() for made in devices)
