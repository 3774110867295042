"""The fleet rolled back to the state after a round."""

import dataclasses

import pytest

from aggregator_server.fleet.classes import list_classes, rename_class
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.rounds.history import starting_point
from aggregator_server.rounds.publishing import describe_public_set
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.undo.class_changes import merge_class, remove_class
from aggregator_server.undo.reports import list_class_history
from aggregator_server.undo.restoring import restore_round
from fleet_protocol.messages import ClassAssignment
from tests.support.aggregator_process import SharingDevice
from tests.support.core_fleet import CoreFleet, devices

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
    restored = restore_round(fleet.store, first, 300.0)
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
    again = restore_round(fleet.store, second, 500.0)  # what was undone is done again
    assert state_after(fleet, again) == state_after(fleet, second)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]


def test_changes_of_classes_are_undone_and_devices_are_told_again(fleet):
    first = fleet.run_round(100.0, strategy="fedavg")
    merge_class(fleet.store, "c5", "c0", 201.0)
    remove_class(fleet.store, "c1", 202.0)
    restored = restore_round(fleet.store, first, 300.0)
    assert state_after(fleet, restored) == state_after(fleet, first)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]
    work = fleet.work(fleet.devices[2])
    assert (work.retired, [item.class_id for item in work.merged]) == ((), [])
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
    restored = restore_round(fleet.store, second, 400.0)
    assert describe_round(fleet.store, restored).summary.strategy == "zero_shot"
    with fleet.store.reading() as session:
        assert current_model(session).version == 1
        assert starting_point(session, None)[1] == state_after(fleet, first)[2]
