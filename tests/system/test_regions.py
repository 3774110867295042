"""Fleets that are regions of another one: real servers, real HTTP, one upload for each region."""

import hashlib
import json
import stat
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from aggregator_server import cli
from aggregator_server.fleet.devices import enrol
from aggregator_server.fleet.region import read_region
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.store import Store
from fleet_protocol.messages import Enrolment, Update, parse
from fleet_protocol.tensors import pack, unpack
from tests.support.aggregator_process import SETTINGS, Fleet, SharingDevice
from tests.support.checkout import run_module
from tests.support.killed_region import devices_of
from tests.support.recording_proxy import RecordingProxy
from tests.support.regions import CLASSES, OWN_MEAN, Region, Upper, invite, join, mean_of, until
from tests.support.state_servers import located, options_of


def weights(fleet, sha256):
    return unpack(fleet.admin.get(f"/v1/blobs/{sha256}").raise_for_status().content)[0]


def test_regions_take_part_as_devices_and_their_devices_learn_what_the_upper_fleet_came_to(start_aggregator, tmp_path):
    upper = Upper(start_aggregator)
    regions = [
        Region(upper.aggregator, tmp_path / f"region-{first}", start_aggregator, range(first, first + count), *OWN_MEAN)
        for first, count in ((1, 3), (11, 2))
    ]
    for number in (1, 2):
        round_id = upper.opened()
        sent = {}
        for region in regions:
            sent |= region.take_part()
        found = upper.done(round_id)
        assert (found["summary"]["state"], found["summary"]["uploaded"]) == ("done", 2), found
        result, flat = weights(upper, found["result_weights"]), mean_of(sent)
        assert sorted(one["clips"] for one in found["participants"]) == [51 + 52, 41 + 42 + 43]
        for name, array in flat.items():
            np.testing.assert_allclose(result[name][..., :4], array[..., :4], rtol=1e-5, atol=1e-6)
        for region in regions:
            taken = region.adopted(number)
            assert taken["result_weights"] == found["result_weights"]
            work = region.work(region.devices[0])
            assert (work["kind"], work["round_id"]) == ("learn", taken["summary"]["round_id"])
            assert work["weights"] == found["result_weights"]
        until(lambda number=number: upper.round(number)["summary"]["learned"] == 2, "learned")
    parts = [one for one in regions[0].rounds() if one["upper_round"]]
    assert [(one["upper_round"], one["state"], one["learned"]) for one in parts] == [(2, "done", 0), (1, "done", 0)]


class MarkedDevice(SharingDevice):
    """Has a number that comes up nowhere by chance, and a sound of its own to tell of."""

    @property
    def device_id(self):
        return hashlib.sha256(b"device %d" % self.number).hexdigest()[:32]

    def enrolment(self, **changes):
        return super().enrolment(name=f"bedside lamp {self.number}", **changes)


def region_row(data):
    store = Store(located(data))
    try:
        with store.reading() as session:
            return read_region(session)
    finally:
        store.close()


def test_one_upload_goes_up_byte_by_byte_and_nothing_of_a_device(start_aggregator, tmp_path):
    upper, data = Upper(start_aggregator), tmp_path / "north"
    host, port = upper.aggregator.url.removeprefix("http://").split(":")
    with RecordingProxy(host, int(port)) as proxy:
        through = SimpleNamespace(client=upper.aggregator.client, url=proxy.url)
        region = Region(through, data, start_aggregator, (1, 2, 3), *OWN_MEAN, kind=MarkedDevice)
        round_id = upper.opened()
        region.take_part()
        upper.done(round_id)
        region.adopted(1)
        until(lambda: upper.round(round_id)["summary"]["learned"] == 1, "learned")
        (part,) = [region.round(one["round_id"]) for one in region.rounds() if one["upper_round"]]
        result = weights(region, part["result_weights"])
        files = sorted(path for path in data.rglob("auricle.db*"))
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files} == dict.fromkeys(
            ("auricle.db", "auricle.db-shm", "auricle.db-wal"), 0o600
        )
        assert region.aggregator.stop() == 0
        sent, requests = proxy.sent, proxy.requests
    row = region_row(data)
    update = Update(
        round_id=round_id,
        device_id=row.device_id,
        features=SETTINGS.digest,
        public_set=part["public_set"],
        classes=CLASSES,
        clips=41 + 42 + 43,
        metrics={"devices": 3.0},
    )
    bodies = [one for one in requests if one.body]
    uploads = [one.body for one in bodies if one.method == "PUT"]
    assert uploads == [pack({f"weights/{name}": array for name, array in result.items()}, asdict(update))]
    said = [(one.path, json.loads(one.body)) for one in bodies if one.method == "POST"]
    assert {path for path, _ in said} == {"/v1/devices", f"/v1/rounds/{round_id}/learned"}
    assert said[-1][1] == {"round_id": round_id, "personalised": False, "kept_own": False, "metrics": {}}
    for device in region.devices:
        told = device.enrolment()
        for secret in (told["device_id"], told["secret"], told["name"]):
            assert secret.encode() not in sent
        assert bytes.fromhex(device.device_id) not in sent
    assert row.secret.encode() in sent


def trouble(upper, name):
    """What the upper server knows of what keeps a region from its part; "" where nothing does."""
    return next(one["trouble"] or "" for one in upper.admin.get("/v1/devices").json() if one["name"] == name)


@pytest.mark.slow
def test_a_lying_region_moves_nobody_and_one_that_cannot_take_part_says_why(start_aggregator, tmp_path, capsys):
    upper = Upper(start_aggregator)
    names = ("north", "south")
    north, south = (
        Region(upper.aggregator, tmp_path / name, start_aggregator, range(first, first + 2), *OWN_MEAN)
        for name, first in zip(names, (1, 11), strict=True)
    )
    # A region that lies is a device that lies: whatever its own devices sent, it makes up what it sends.
    liar = SharingDevice(99, CLASSES)
    liars = Fleet(upper.aggregator, [liar])
    liars.enrol()
    round_id = upper.opened(aggregation={"name": "median"})
    work = liars.work(liar)
    arrays = {name: array + 1e5 for name, array in liar.arrays(work, upper.samples).items()}
    liars.upload(liar, work, pack(arrays, asdict(liar.update(work, clips=2**30)))).raise_for_status()
    honest = [mean_of(region.take_part()) for region in (north, south)]
    found = upper.done(round_id)
    for name, array in weights(upper, found["result_weights"]).items():
        low, high = (pick([one[name] for one in honest], axis=0) for pick in (np.min, np.max))
        within = (array >= low - 1e-5) & (array <= high + 1e-5)
        assert within[..., :4].all(), name
    upper.admin.delete(f"/v1/devices/{liar.device_id}").raise_for_status()
    north.adopted(1)

    refused = north.admin.post("/v1/rounds", json={"strategy": "fedavg"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_region")

    # The north's own round fails; the south has done its part.
    round_id = upper.opened()
    south.take_part()
    part = until(lambda: next((one for one in north.rounds() if one["state"] == "open"), None), "the north's part")
    north.admin.delete(f"/v1/rounds/{part['round_id']}").raise_for_status()
    until(lambda: "this region's round failed: cancelled" in trouble(upper, "north"), "the trouble of the north")
    until(lambda: upper.round(round_id)["summary"]["uploaded"] == 1, "the south's upload")
    assert not trouble(upper, "south")
    upper.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()

    round_id = upper.open_round(strategy="zero_shot")
    until(lambda: "not with 'zero_shot'" in trouble(upper, "south"), "the trouble of the south")
    upper.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()
    cli.main(["doctor", "--data", str(tmp_path / "south"), *options_of(tmp_path / "south")])
    assert "it took no part: round 3: a region passes on rounds" in capsys.readouterr().out

    # What went wrong is over with the next round that goes well.
    round_id = upper.opened()
    for region in (north, south):
        region.take_part()
    assert upper.done(round_id)["summary"]["uploaded"] == 2
    until(lambda: not trouble(upper, "south"), "the end of the trouble")

    south.aggregator.stop()
    assert cli.main(["leave", "--data", str(tmp_path / "south"), *options_of(tmp_path / "south")]) == 0
    assert [one["name"] for one in upper.admin.get("/v1/devices").json() if not one["revoked_at"]] == ["north"]


def after_rounds(start_aggregator, tmp_path, name, kills):
    """Take a region through two rounds of an upper fleet of its own; return what both have in the end."""
    upper, data = Upper(start_aggregator, f"upper-{name}"), tmp_path / name
    assert join(invite(upper.aggregator), data, "--name", name, *OWN_MEAN) == 0
    store, killed = Store(located(data)), 0
    for device in devices_of():
        enrol(store, parse(Enrolment, device.enrolment()), now=0.0)
    store.close()
    for number in (1, 2):
        round_id = upper.opened()
        printed = run_module("tests.support.killed_region", upper.aggregator.url, round_id, data, kills, number)
        assert printed.returncode == 0, printed.stderr
        killed += int(printed.stdout)
    store = Store(located(data))
    try:
        here = [(row, describe_round(store, row.round_id)) for row in list_rounds(store, None, 10)]
    finally:
        store.close()
    above = [upper.round(number) for number in (1, 2)]
    assert [one["summary"]["uploaded"] for one in above] == [1, 1]
    conduct = upper.admin.get("/v1/devices").json()[0]["conduct"]
    found = [(row.state, row.operation, row.upper_round, one.result_weights) for row, one in here]
    return killed, conduct, found, [one["result_weights"] for one in above]


@pytest.mark.slow
def test_a_region_that_is_killed_at_any_line_sends_the_same_upload_and_it_counts_once(start_aggregator, tmp_path):
    killed, *disturbed = after_rounds(start_aggregator, tmp_path, "killed", 5)
    none, *undisturbed = after_rounds(start_aggregator, tmp_path, "undisturbed", 0)
    assert none == 0
    assert killed >= 5
    assert disturbed == undisturbed
    assert [found[:3] for found in disturbed[1]] == [
        ("done", "adopt", None),
        ("done", None, 2),
        ("done", "adopt", None),
        ("done", None, 1),
    ]
