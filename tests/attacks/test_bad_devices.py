"""Devices that send values which no honest device has: a real server refuses them, or does not let them count."""

from dataclasses import asdict

import numpy as np
import pytest

from fleet_protocol.tensors import pack, unpack
from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, tiny_bundle
from tests.support.core_fleet import devices

MOST_CLIPS = 2**31 - 1


def started(aggregator, kind, count=3):
    """A fleet at a server, enrolled, with a public set and a shared model."""
    fleet = Fleet(aggregator, [kind(number, ("c0", "c1", "c2", "c3")) for number in range(1, count + 1)])
    fleet.publish().raise_for_status()
    fleet.admin.put("/v1/model", content=tiny_bundle()).raise_for_status()
    fleet.enrol()
    return fleet


def body(device, work, change=None, **document):
    """An upload whose arrays were changed, and whose document says something else."""
    arrays = device.arrays(work, 24)
    if change is not None:
        change(arrays)
    return pack(arrays, asdict(device.update(work, **document)))


def refusal(fleet, device, work, data):
    response = fleet.upload(device, work, data)
    assert response.status_code == 422, response.text
    assert response.json()["error"]["code"] == "malformed_update"
    return response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a["scores"].__imul__(1e30), "probabilities, from 0 to 1"),
        (lambda a: a["scores"].__isub__(1), "probabilities, from 0 to 1"),
        (lambda a: a["scores"].fill(1), "sum to at most 1"),
        (lambda a: a["impressions"].__imul__(1e6), "public recordings' features allow"),
        (lambda a: a["impressions"].__itruediv__(1e-30), "public recordings' features allow"),
        (lambda a: a.update(profiles=np.full((3, 24), 7, np.float32)), "cosines are from -1 to 1"),
    ],
)
def test_scores_and_descriptions_that_no_device_computes_are_refused(start_aggregator, change, words):
    fleet = Fleet(start_aggregator(), devices(2))
    fleet.publish().raise_for_status()
    fleet.enrol()
    round_id = fleet.open_round()
    liar, honest = fleet.devices
    work = fleet.work(liar)
    assert words in refusal(fleet, liar, work, body(liar, work, change))
    for device in (liar, honest):  # the device may send a right one, and the round goes on
        fleet.upload(device, fleet.work(device)).raise_for_status()
    assert fleet.work(honest)["kind"] == "learn"
    assert fleet.round(round_id)["summary"]["state"] == "done"
    fleet.close()


def test_weights_as_large_as_float32_holds_are_refused(start_aggregator):
    fleet = started(start_aggregator(), SharingDevice)
    round_id = fleet.open_round(strategy="fedavg", quorum=0.5, deadline_s=86_400)
    liar = fleet.devices[0]
    work = fleet.work(liar)
    largest = body(liar, work, lambda a: a["weights/body/kernel"].fill(3.4e38), clips=MOST_CLIPS)
    assert "3.4e+38; at most 1e+06 is taken" in refusal(fleet, liar, work, largest)
    assert fleet.round(round_id)["summary"]["uploaded"] == 0
    fleet.close()


@pytest.mark.parametrize("rule", ["weighted_mean", "lpa"])
def test_a_false_number_of_clips_does_not_make_a_device_the_fleet(start_aggregator, rule):
    fleet = started(start_aggregator(), SharingDevice)
    fleet.open_round(strategy="fedavg", aggregation={"name": rule})
    liar, *honest = fleet.devices
    rows = []
    for device in fleet.devices:
        work = fleet.work(device)
        fleet.upload(device, work, body(device, work, clips=MOST_CLIPS if device is liar else 40)).raise_for_status()
        rows.append(device.arrays(work, 24)["weights/body/kernel"])
    weights, _ = unpack(fleet.admin.get(f"/v1/blobs/{fleet.work(liar)['weights']}").content)
    np.testing.assert_allclose(weights["body/kernel"], (3 * rows[0] + rows[1] + rows[2]) / 5, rtol=1e-5)
    assert len(honest) == 2
    fleet.close()


def test_a_false_number_of_clips_does_not_make_a_device_the_consensus(start_aggregator):
    fleet = started(start_aggregator(), FakeDevice)
    fleet.open_round()
    liar = fleet.devices[0]
    for device in fleet.devices:
        work = fleet.work(device)
        fleet.upload(device, work, body(device, work, clips=MOST_CLIPS if device is liar else 40)).raise_for_status()
    scores, _ = unpack(fleet.admin.get(f"/v1/blobs/{fleet.work(liar)['consensus']}").content)
    assert scores["scores"].max() <= 3 * 40 / 24  # no more than three times what an honest device can add
    fleet.close()
