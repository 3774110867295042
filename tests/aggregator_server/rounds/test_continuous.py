"""Continuous rounds: an upload is merged when it arrives, and another round follows."""

import numpy as np
import pytest

from aggregator_server.errors import InvalidPlanError, NotSelectedError, RoundClosedError, RoundOpenError
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.messages import ClassReport
from tests.support.core_fleet import CoreFleet
from tests.support.embedded_words import PrototypeDevice, embedded_public_set

pytestmark = pytest.mark.scaled

DAY = 86_400.0


def device(number, *classes, met=None):
    reports = (ClassReport(9, None, 6),) if met else ()
    return PrototypeDevice(number, classes, reports=reports, sounds={9: met})


@pytest.fixture
def fleet(tmp_path):
    public = embedded_public_set(np.random.default_rng(7))
    made = CoreFleet(tmp_path / "data", [device(1, "c0", met=7), device(2, "c1"), device(3, "c2")], public=public)
    made.open(100.0, strategy="prototypes", rounds="continuous", deadline_s=5)
    return made


def prototypes(fleet, round_id):
    return FleetPrototypes.unpack(fleet.store.blobs.read(describe_round(fleet.store, round_id).result_prototypes))


def test_each_upload_closes_a_round_and_the_next_one_builds_on_it(fleet):
    assert fleet.deadline() is None
    assert fleet.advance(1e9) is None  # nobody uploaded, however long ago the round was opened
    for round_id, member in enumerate(fleet.devices, start=1):
        fleet.upload(member, 100.0 + round_id)
        assert fleet.advance() == round_id
        for other in fleet.devices:
            fleet.learned(other, round_id)
    assert [(found.round_id, found.state, found.series) for found in list_rounds(fleet.store, None, 9)] == [
        (4, "open", 1),
        (3, "done", 1),
        (2, "done", 1),
        (1, "done", 1),
    ]
    found = prototypes(fleet, 3)
    assert dict(zip(found.class_ids, found.devices.tolist(), strict=True)) == {"c0": 1, "c1": 1, "c2": 1, "c4": 1}


def test_a_device_is_asked_again_only_after_a_while_and_told_only_what_is_new(fleet):
    first, second, third = fleet.devices
    fleet.upload(second, 101.0)
    fleet.advance()
    for member in fleet.devices:
        fleet.learned(member, 1)
    assert fleet.work(second, 102.0) is None
    assert fleet.work(third, 102.0).kind == "contribute"
    work = fleet.work(second, 101.0 + DAY)
    assert (work.kind, work.round_id) == ("contribute", 2)
    fleet.upload(second, 101.0 + DAY)  # the same clips
    assert fleet.advance() == 2
    assert fleet.work(second, 102.0 + DAY) is None
    assert fleet.work(third, 102.0 + DAY).kind == "contribute"  # and not: learn the same once more
    fleet.upload(first, 103.0 + DAY)
    fleet.advance()
    assert fleet.work(second, 104.0 + DAY).kind == "learn"


def test_an_upload_for_a_round_that_another_upload_closed_goes_into_the_present_one(fleet):
    first, second, _ = fleet.devices
    work = fleet.work(second)
    late = fleet.body(second, work)
    fleet.upload(first)  # reports a new sound, so the public set grows
    fleet.advance()
    receipt = fleet.send(second, work.round_id, late)
    assert not receipt.repeated
    assert fleet.advance() == 2
    assert fleet.send(second, work.round_id, late).repeated  # its receipt got lost
    assert fleet.advance() is None
    with pytest.raises(NotSelectedError, match="contributed lately"):
        fleet.send(second, 3, second.upload({"round_id": 3, "public_set": work.public_set}, 0))
    assert prototypes(fleet, 2).class_ids == ("c0", "c1", "c4")


def test_a_device_that_enrols_later_takes_part_and_one_that_is_revoked_does_not(fleet):
    late = device(4, "c3")
    fleet.enrol(late)
    fleet.upload(late)
    change_devices(fleet.store, [late.device_id], "revoke", 103.0)
    assert fleet.advance() is None
    fleet.upload(fleet.devices[1])
    fleet.advance()
    assert prototypes(fleet, 1).class_ids == ("c1",)


def test_it_ends_when_it_is_cancelled_and_begins_where_it_was(fleet):
    fleet.upload(fleet.devices[1])
    fleet.advance()
    with pytest.raises(RoundOpenError):
        fleet.open(104.0)
    cancel_round(fleet.store, 2, 105.0)
    with pytest.raises(RoundClosedError, match="are over"):
        fleet.send(fleet.devices[2], 2, fleet.devices[2].upload({"round_id": 2, "public_set": ""}, 0))
    fleet.open(106.0, strategy="prototypes", rounds="continuous")
    fleet.learned(fleet.devices[2], 1)
    fleet.upload(fleet.devices[2], 107.0)
    assert fleet.advance() == 3
    assert prototypes(fleet, 3).class_ids == ("c1", "c2")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"strategy": "zero_shot"}, "those of prototypes can"),
        ({"strategy": "prototypes", "every_s": 0.5}, "every_s must be from 1"),
    ],
)
def test_what_cannot_be_continuous_is_refused(fleet, request_, message):
    with pytest.raises(InvalidPlanError, match=message):
        fleet.open(104.0, rounds="continuous", **request_)
