"""Uploads that no device would send: invented sounds, an entropy that is none, poison that is undone."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import save

from aggregator_server.limits import NEW_CLASSES_OF_A_DEVICE
from aggregator_server.strategies.plans import complete, known_settings
from aggregator_server.strategies.sharing import adaptive_local_training
from aggregator_server.strategies.strategy import DeviceStatistics
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages.rest import Choice
from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, sound_impressions, tiny_bundle

CAPACITY = 16


def packed(arrays, document):
    """Safetensors whose document may hold NaN and Infinity, which fleet_protocol.numbers.tensors.pack never writes."""
    return save(arrays, metadata={"auricle": json.dumps(document)})


def inventing(device, work, samples, reports, rows=1):
    """An upload that reports so many sounds that nobody made, no two of them alike."""
    rng = np.random.default_rng(device.number)
    document = asdict(device.update(work, reports=(), known=()))
    document["reports"] = [{"slot": slot, "name": None, "clips": 5} for slot in range(reports)]
    first = 1_000 * device.number
    impressions = [sound_impressions(first + slot, rows, rng).astype(np.float32) for slot in range(reports)]
    return packed(device.arrays(work, samples) | {"impressions": np.stack(impressions)}, document)


@pytest.fixture
def fleet(start_aggregator):
    devices = [SharingDevice(number, ("c0", "c1"), capacity=CAPACITY) for number in (1, 2, 3)]
    return Fleet(start_aggregator(), devices).ready(tiny_bundle(CAPACITY))


def test_one_upload_brings_four_classes_at_most(fleet):
    round_id = fleet.open_round()
    for device in fleet.devices:
        work, scoring = fleet.work(device), FakeDevice(device.number, device.classes)
        invented = device.number == 1
        body = inventing(scoring, work, fleet.samples, REPORTS) if invented else scoring.upload(work, fleet.samples)
        fleet.upload(device, work, body).raise_for_status()
    assert fleet.work(fleet.devices[0])["kind"] == "learn"
    assert len(fleet.admin.get("/v1/classes").json()) == 4 + NEW_CLASSES_OF_A_DEVICE
    assert len(fleet.round(round_id)["discovery"]["left_open"]) == REPORTS - NEW_CLASSES_OF_A_DEVICE


HOSTILE = [float("-inf"), float("inf"), float("nan"), -1.0, 20.1, 1e308]
DEVICES = [SharingDevice(1, ("c0", "c1")), SharingDevice(2, ("c1", "c2"))]


def test_such_an_upload_is_refused_by_every_strategy_and_the_field_is_named(start_aggregator):
    fleet = Fleet(start_aggregator(), DEVICES).ready(tiny_bundle())
    for strategy, kind in (("zero_shot", FakeDevice), ("fedavg", SharingDevice)):
        round_id = fleet.open_round(strategy=strategy)
        work = fleet.work(fleet.devices[0])
        for value in HOSTILE:
            device = kind(1, ("c0", "c1"))
            document = asdict(device.update(work)) | {"label_entropy": value}
            body = packed(device.arrays(work, fleet.samples), document)
            refused = fleet.upload(fleet.devices[0], work, body)
            assert refused.status_code == 422
            assert refused.json()["error"]["code"] == "malformed_update"
            assert "label_entropy" in refused.json()["error"]["message"]
        fleet.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()


def test_reports_of_next_to_nothing_leave_the_step_factor_within_its_range():
    local = complete("local", Choice("fedkws_ui"))
    reported = tuple(DeviceStatistics(f"{number:032x}", 1, 1e-300) for number in range(3))
    largest = known_settings("local")["fedkws_ui"]["step_factor"].high
    assert adaptive_local_training(local, reported, 10).settings["step_factor"] == largest
