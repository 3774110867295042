"""Private rounds over HTTP at a real server: killed at each stage, and what of a device's numbers it ever has."""

import sqlite3
from contextlib import closing

import httpx
import numpy as np
import pytest

from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from tests.support.dashboard_visitor import Visitor
from tests.support.private_fleet import PrivateFleet, plain_means, private_devices

STAGES = ("keys", "shares", "contribute", "unmask")


@pytest.fixture
def fleet_of(start_aggregator):
    def make(name, count):
        return PrivateFleet(start_aggregator(name), private_devices(count)).ready()

    return make


def finish(fleet, round_id, kill_in=()):
    """Play a round; kill the server in the middle of each of some stages, and start it again. Return the round."""
    half, done = len(fleet.devices) // 2, dict.fromkeys(STAGES, 0)
    seen = []
    for stage, answer in fleet.answers(round_id):
        answer.raise_for_status()
        seen.append(stage)
        done[stage] += 1
        if stage in kill_in and done[stage] == half:
            fleet.aggregator.kill()
            fleet.aggregator.start()
            fleet.reconnect()
    assert seen == [stage for stage in STAGES for _ in fleet.devices]
    return fleet.round(round_id)


@pytest.mark.slow
def test_a_server_that_is_killed_in_every_stage_comes_to_the_same_bytes(fleet_of):
    digests = set()
    for name, kill_in in (("whole", ()), ("killed", STAGES)):
        fleet = fleet_of(name, 5)
        detail = finish(fleet, fleet.open_private(groups=5), kill_in)
        assert detail["summary"]["state"] == "done", detail["summary"]["reason"]
        digests.add(detail["result_prototypes"])
        assert fleet.aggregator.stop() == 0
        assert "Traceback" not in fleet.aggregator.log()
    assert len(digests) == 1


def everything(aggregator):
    """All bytes that a server stores: its tables as they are read, and its files as they are."""
    with closing(sqlite3.connect(aggregator.data / "auricle.db")) as database:
        tables = "\n".join(database.iterdump()).encode()
    return tables + b"".join(aggregator.files().values())


def numbers_of(device, work):
    """A device's numbers as somebody might find them: as floats, as they are summed, and in hex digits."""
    prototypes, _ = device.takes()
    words = device.numbers(work)
    rows = [row.astype(kind).tobytes() for row in prototypes for kind in (np.float32, np.float64)]
    used = np.flatnonzero(words)
    rows += [words[first : first + 4].tobytes() for first in used[:-4:4]]
    return [*rows, *(row.hex().encode() for row in rows)]


def test_a_server_never_stores_a_devices_own_numbers_and_no_key_that_shows_them(fleet_of):
    fleet = fleet_of("server", 5)
    round_id = fleet.open_private(groups=4, aggregation={"centre": "mean"})
    visitor = Visitor(fleet.aggregator)
    visitor.sign_in()
    wanted, stored, secrets, shown = {}, b"", [], set()
    for stage, answer in fleet.answers(round_id):
        answer.raise_for_status()
        for device in fleet.devices:
            if stage == "keys" and not wanted.get(device.number):
                work = fleet.private_work(device)
                if work is not None and work.kind == "keys":
                    wanted[device.number] = numbers_of(device, work)
                    secrets.append(device.secret_of(round_id).mask_key)
        stored += everything(fleet.aggregator)
        shown |= {one for one in STAGES if f"<dt>Stage</dt><dd>{one}: " in visitor.get(f"/rounds/{round_id}").text}
    detail = fleet.round(round_id)
    assert detail["summary"]["state"] == "done", detail["summary"]["reason"]
    assert {"keys", "shares", "contribute"} <= shown
    page = visitor.get(f"/rounds/{round_id}").text
    assert "Sums of groups of 4 or more" in page
    assert "5 of 5 devices" in page
    assert all(one["clips"] is None for one in detail["participants"])
    assert len(wanted) == len(fleet.devices) - 1  # the first had answered
    found = [
        (number, row) for number, rows in wanted.items() for row in rows if row in stored and row.strip(b"\x00") != b""
    ]
    assert found == []
    assert not any(secret in stored or secret.hex().encode() in stored for secret in secrets)
    blob = fleet.admin.get(f"/v1/blobs/{detail['result_prototypes']}")
    means = FleetPrototypes.unpack(blob.content)
    plain = plain_means(fleet.devices)
    for class_id, mean in zip(means.class_ids, means.means, strict=True):
        np.testing.assert_allclose(mean[0], plain[class_id], atol=2e-5)
    with pytest.raises(httpx.HTTPStatusError):  # not even who has the file's name may fetch a masked upload
        fleet.admin.get(f"/v1/blobs/{detail['participants'][0]['upload']}").raise_for_status()


def test_the_form_of_the_dashboard_opens_a_private_round_or_says_why_it_cannot(fleet_of):
    fleet = fleet_of("server", 5)
    visitor = Visitor(fleet.aggregator)
    visitor.sign_in()
    for strategy, groups, said in (
        ("prototypes", "3", "have 4 to 128 devices, not 3"),
        ("prototypes", "20", "needs 10 devices that are there and can take part in one, and 5 were found"),
        ("prototypes", "many", "Devices of a group must be a whole number"),
        ("fedkws_ui", "4", "&#39;fedkws_ui&#39; needs each device&#39;s upload; a private round can be of: fedavg"),
    ):
        refused = visitor.post("/rounds", strategy=strategy, private="on", groups=groups).text
        assert said in refused
        assert 'name="private" checked' in refused
        assert f'name="groups" inputmode="numeric" value="{groups}"' in refused
    for strategy, epsilon, said in (
        ("prototypes", "little", "Epsilon must be a number, not"),
        ("prototypes", "nan", "psilon is from 0.1 to 100, not nan"),
        ("zero_shot", "4", "has no bound for noise; leave epsilon out"),
    ):
        refused = visitor.post("/rounds", strategy=strategy, private="on", groups="5", epsilon=epsilon).text
        assert said in refused
        assert f'name="epsilon" inputmode="decimal" value="{epsilon}"' in refused
    assert "prototypes, zero_shot." in visitor.get("/rounds/new").text
    opened = visitor.post("/rounds", strategy="prototypes", private="on", groups="5").headers["location"]
    assert fleet.round(int(opened.partition("?")[0].rpartition("/")[2]))["private"]["group_size"] == 5
    assert '<span class="badge">private</span>' in visitor.get("/rounds").text
    (listed,) = fleet.admin.get("/v1/rounds").json()
    assert listed["private"] is True
