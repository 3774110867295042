"""The fleet rolled back to the state after a round, as that was or without some uploads."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.fleet.classes import list_classes, rename_class
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.rounds.history import starting_point
from aggregator_server.rounds.publishing import describe_public_set
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.undo.class_changes import merge_class, remove_class, split_class
from aggregator_server.undo.reports import list_class_history
from aggregator_server.undo.restoring import restore_round
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.messages import ClassAssignment
from fleet_protocol.tensors import unpack
from tests.support.aggregator_process import SharingDevice
from tests.support.core_fleet import CoreFleet, devices
from tests.support.embedded_words import PrototypeDevice, embedded_public_set

STATE = ("result_public_set", "result_consensus", "result_weights", "result_prototypes")


def quiet(fleet):
    """Devices that report nothing new."""
    fleet.devices = [dataclasses.replace(device, reports=(), known=()) for device in fleet.devices]


@pytest.fixture
def fleet(tmp_path):
    fleet = CoreFleet(tmp_path / "data", devices(kind=SharingDevice))
    fleet.publish_model()
    yield fleet
    fleet.store.close()


def names(fleet):
    return [info.class_id for info in list_classes(fleet.store)]


def states(fleet):
    return {item.class_id: item.state for item in list_class_history(fleet.store)}


def state_after(fleet, round_id):
    shown = describe_round(fleet.store, round_id)
    return [getattr(shown, name) for name in STATE]


def learn(fleet, round_id):
    for device in fleet.devices:
        assert fleet.work(device).round_id == round_id
        fleet.learned(device, round_id)


def test_the_state_after_a_round_is_the_fleet_s_again_and_the_next_round_starts_from_it(fleet):
    spoken, quiet_ones = fleet.devices, None
    quiet(fleet)
    quiet_ones = fleet.devices
    first = fleet.run_round(100.0, strategy="fedavg")
    fleet.devices = spoken
    second = fleet.run_round(200.0, strategy="fedavg")  # discovers c4 and c5
    rename_class(fleet.store, "c0", "hello")
    restored = restore_round(fleet.store, first, (), 300.0)
    assert state_after(fleet, restored) == state_after(fleet, first) != state_after(fleet, second)
    assert [found.undone_by for found in list_rounds(fleet.store, None, 9)] == [None, restored, None]
    assert list_classes(fleet.store)[0].name == "hello"
    assert names(fleet) == ["c0", "c1", "c2", "c3"]
    assert states(fleet)["c4"] == states(fleet)["c5"] == "undone"
    assert describe_public_set(fleet.store).sha256 == state_after(fleet, first)[0]
    learn(fleet, restored)
    third = fleet.run_round(400.0, strategy="fedavg", learn=False)
    assert describe_round(fleet.store, third).weights == state_after(fleet, first)[2]
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c6", "c7"]  # the sounds were reported again
    assert fleet.work(fleet.devices[0]).assignments == (ClassAssignment(2, "c6"),)
    fleet.devices = quiet_ones
    again = restore_round(fleet.store, second, (), 500.0)  # what was undone is done again
    assert state_after(fleet, again) == state_after(fleet, second)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]


def test_changes_of_classes_are_undone_and_devices_are_told_again(fleet):
    first = fleet.run_round(100.0, strategy="fedavg")
    split_class(fleet.store, "c4", [fleet.devices[1].device_id], "bell", 200.0)
    merge_class(fleet.store, "c5", "c0", 201.0)
    remove_class(fleet.store, "c1", 202.0)
    restored = restore_round(fleet.store, first, (), 300.0)
    assert state_after(fleet, restored) == state_after(fleet, first)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]
    assert states(fleet)["c6"] == "merged"
    work = fleet.work(fleet.devices[2])
    assert (work.retired, [item.class_id for item in work.merged]) == ((), ["c6"])
    assert work.assignments == (ClassAssignment(2, "c5"),)
    learn(fleet, restored)
    fleet.run_round(400.0, strategy="fedavg")
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]


def test_the_state_of_other_strategies_is_that_of_their_last_round_before(fleet):
    quiet(fleet)
    first = fleet.run_round(100.0, strategy="fedavg")
    scoring = [dataclasses.replace(device, reports=(), known=()) for device in devices()]
    sharing, fleet.devices = fleet.devices, scoring
    second = fleet.run_round(200.0, strategy="zero_shot")
    fleet.devices = sharing
    fleet.run_round(300.0, strategy="fedavg", replace_model=True)
    restored = restore_round(fleet.store, second, (), 400.0)
    assert describe_round(fleet.store, restored).summary.strategy == "zero_shot"
    with fleet.store.reading() as session:
        assert current_model(session).version == 1
        assert starting_point(session, None).weights == state_after(fleet, first)[2]


@pytest.mark.parametrize("strategy", ["fedavg", "zero_shot"])
def test_a_round_without_a_device_s_upload_is_what_it_had_been_without_it(tmp_path, strategy):
    """Its result is compared with that of a fleet whose poisoned device never uploaded."""
    found = []
    for poisoned in (True, False):
        kind = SharingDevice if strategy == "fedavg" else None
        fleet = CoreFleet(tmp_path / str(poisoned), devices(kind=kind) if kind else devices())
        fleet.publish_model()
        round_id = fleet.open(100.0, strategy=strategy, deadline_s=60)
        for device in fleet.devices if poisoned else fleet.devices[1:]:
            fleet.upload(device, 101.0)
        fleet.advance(1_000.0)
        if poisoned:
            bad = fleet.devices[0].device_id
            spoiled = round_id
            uploads = {part.device_id: part.upload for part in describe_round(fleet.store, spoiled).participants}
            round_id = restore_round(fleet.store, spoiled, [bad], 2_000.0)
            shown = describe_round(fleet.store, round_id)
            assert shown.operation == {"without_devices": [bad]}
            assert bad not in [part.device_id for part in shown.participants]
            assert not fleet.store.blobs.path(uploads[bad]).exists()
            assert fleet.store.blobs.path(uploads[fleet.devices[1].device_id]).exists()
            assert names(fleet) == ["c0", "c1", "c2", "c3", "c6", "c7"]
            assert fleet.work(fleet.devices[1], 2_001.0).assignments == (ClassAssignment(2, "c6"),)
        arrays = []
        for digest in state_after(fleet, round_id):
            if digest is not None:
                content = unpack(fleet.store.blobs.read(digest))[0]
                arrays += [content[name] for name in sorted(content)]
        found.append(arrays)
        fleet.store.close()
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_a_device_said_in_earlier_rounds_goes_with_its_upload(tmp_path):
    members = [PrototypeDevice(1, ("c0", "c1")), PrototypeDevice(2, ("c1", "c2"))]
    fleet = CoreFleet(tmp_path / "data", members, public=embedded_public_set(np.random.default_rng(7)))
    fleet.run_round(100.0, strategy="prototypes")
    second = fleet.run_round(200.0, strategy="prototypes")
    restored = restore_round(fleet.store, second, [members[0].device_id], 300.0)
    found = FleetPrototypes.unpack(fleet.store.blobs.read(state_after(fleet, restored)[3]))
    assert dict(zip(found.class_ids, found.devices.tolist(), strict=True)) == {"c1": 1, "c2": 1}
