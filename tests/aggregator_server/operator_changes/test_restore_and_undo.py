"""Classes that an operator merges and retires, the fleet rolled back to the state after a round, and what follows."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.fleet.class_details import list_class_history
from aggregator_server.fleet.classes import list_classes, rename_class
from aggregator_server.operator_changes.merge_and_retire import merge_class, remove_class
from aggregator_server.operator_changes.restore_and_undo import restore_round
from aggregator_server.rounds.publishing import describe_public_set
from aggregator_server.rounds.replies import describe_round, list_rounds
from fleet_protocol.bundle.bundle_file import unpack_bundle
from fleet_protocol.messages.public_set import PublicSet, unpack_consensus
from fleet_protocol.messages.rest import ClassAssignment, MergedClass
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import unpack
from tests.support.aggregator_process import SharingDevice, tiny_bundle
from tests.support.core_fleet import CoreFleet, devices, quiet
from tests.support.embedded_words import PrototypeDevice, embedded_public_set


@pytest.fixture
def new(tmp_path):
    """Devices that share a model, before their first round."""
    fleet = CoreFleet(tmp_path / "data", devices(kind=SharingDevice))
    fleet.publish_model()
    yield fleet
    fleet.store.close()


@pytest.fixture
def fleet(new):
    """After a round in which devices 1 and 2 met c4 ("Stop"), and device 3 c5 ("go")."""
    new.run_round(strategy="fedavg")
    return new


def names(fleet):
    return [info.class_id for info in list_classes(fleet.store)]


def states(fleet):
    return {item.class_id: item.state for item in list_class_history(fleet.store)}


def newest(fleet):
    return describe_round(fleet.store, list_rounds(fleet.store, None, 1)[0].round_id)


def public(fleet, shown):
    return PublicSet.unpack(fleet.store.blobs.read(shown.result_public_set))


def weights(fleet, shown):
    return unpack(fleet.store.blobs.read(shown.result_weights))


def rows_of(public_set, class_id):
    return public_set.features[public_set.labels == public_set.class_ids.index(class_id)]


def test_a_retired_class_leaves_rows_columns_and_the_shared_head_and_is_not_found_again(fleet):
    before = newest(fleet)
    remove_class(fleet.store, "c4", 200.0)
    after = newest(fleet)
    assert (after.summary.state, after.summary.operation, after.summary.strategy) == ("done", "retire", "fedavg")
    assert after.operation == {"class_id": "c4"}
    assert names(fleet) == list(public(fleet, after).class_ids) == ["c0", "c1", "c2", "c3", "c5"]
    np.testing.assert_array_equal(rows_of(public(fleet, after), "c5"), rows_of(public(fleet, before), "c5"))
    (old, _), (new, document) = weights(fleet, before), weights(fleet, after)
    initial = unpack_bundle(tiny_bundle(), "tiny").weights
    assert document["classes"] == names(fleet)
    for name in ("head/kernel", "head/bias"):
        np.testing.assert_array_equal(new[name][..., :4], old[name][..., :4])
        np.testing.assert_array_equal(new[name][..., 4], old[name][..., 5])
        np.testing.assert_array_equal(new[name][..., 5:], initial[name][..., 5:])
    np.testing.assert_array_equal(new["body/kernel"], old["body/kernel"])
    for device in fleet.devices:
        work = fleet.work(device, 201.0)
        assert (work.kind, work.round_id, work.retired) == ("learn", after.summary.round_id, ("c4",))
        assert work.weights == after.result_weights
        fleet.learned(device, work.round_id)
    fleet.run_round(300.0, strategy="fedavg")  # devices 1 and 2 report the sound again, as if they had not followed
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c5"]
    assert states(fleet)["c4"] == "retired"


def test_weights_that_an_earlier_round_trained_follow_a_change_after_a_round_of_another_strategy(fleet):
    trained = newest(fleet)
    sharing, fleet.devices = quiet(fleet.devices), quiet(devices())
    assert [device.device_id for device in sharing] == [device.device_id for device in fleet.devices]
    fleet.run_round(200.0, strategy="zero_shot")
    remove_class(fleet.store, "c1", 250.0)
    assert [found.operation for found in list_rounds(fleet.store, None, 2)] == ["retire", "retire"]
    scores, columns = unpack_consensus(fleet.store.blobs.read(newest(fleet).result_consensus))
    assert columns == ("c0", "c2", "c3", "c4", "c5")
    assert scores.shape == (len(public(fleet, newest(fleet)).labels), 5)
    for device in fleet.devices:
        assert fleet.work(device, 251.0).plan.local.name == "zero_shot"
        fleet.learned(device, fleet.work(device, 251.0).round_id)
    fleet.open(300.0, strategy="fedavg")
    start, document = unpack(fleet.store.blobs.read(fleet.work(sharing[0], 301.0).weights))
    assert document["classes"] == names(fleet)
    np.testing.assert_array_equal(start["head/bias"][1:5], weights(fleet, trained)[0]["head/bias"][2:6])


def test_merged_classes_have_each_other_s_rows_and_the_mean_of_their_columns(fleet):
    before = newest(fleet)
    merge_class(fleet.store, "c5", "c4", 200.0)
    after = newest(fleet)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4"]
    union = np.concatenate([rows_of(public(fleet, before), class_id) for class_id in ("c4", "c5")])
    np.testing.assert_array_equal(rows_of(public(fleet, after), "c4"), union)
    old, new = weights(fleet, before)[0]["head/bias"], weights(fleet, after)[0]["head/bias"]
    assert new[4] == pytest.approx((old[4] + old[5]) / 2)
    work = fleet.work(fleet.devices[3], 201.0)
    assert work.merged == (MergedClass("c5", "c4"),)
    fleet.all_learned(work.round_id)
    fleet.run_round(300.0, strategy="fedavg", learn=False)  # device 3 reports its sound again
    assert fleet.work(fleet.devices[2], 303.0).assignments == (ClassAssignment(2, "c4"),)
    merge_class(fleet.store, "c4", "c0", 400.0)
    assert fleet.work(fleet.devices[3], 401.0).merged == (MergedClass("c4", "c0"), MergedClass("c5", "c0"))


def test_prototypes_of_removed_and_merged_classes_no_longer_count_under_their_old_places(tmp_path):
    members = [PrototypeDevice(1, ("c0", "c1")), PrototypeDevice(2, ("c2", "c3")), PrototypeDevice(3, ("c1", "c3"))]
    fleet = CoreFleet(tmp_path / "data", members, public=embedded_public_set(np.random.default_rng(7)))
    fleet.run_round(strategy="prototypes")
    before = FleetPrototypes.unpack(fleet.store.blobs.read(newest(fleet).result_prototypes))
    remove_class(fleet.store, "c0", 200.0)
    merge_class(fleet.store, "c2", "c3", 201.0)
    after = FleetPrototypes.unpack(fleet.store.blobs.read(newest(fleet).result_prototypes))
    assert after.class_ids == ("c1", "c3")
    np.testing.assert_array_equal(after.means[0], before.means[1])
    assert after.devices.tolist() == [2, 3]
    fleet.all_learned(newest(fleet).summary.round_id)
    fleet.open(300.0, strategy="prototypes", quorum=0.1, deadline_s=60)
    fleet.devices[2] = dataclasses.replace(fleet.devices[2], classes=("c1", "c3"))
    fleet.upload(fleet.devices[2], 301.0)
    fleet.advance(1000.0)
    again = FleetPrototypes.unpack(fleet.store.blobs.read(newest(fleet).result_prototypes))
    assert dict(zip(again.class_ids, again.devices.tolist(), strict=True)) == {"c1": 2, "c3": 2}
    np.testing.assert_allclose(again.means[0], before.means[1], rtol=1e-6)


STATE = ("result_public_set", "result_consensus", "result_weights", "result_prototypes")


def state_after(fleet, round_id):
    shown = describe_round(fleet.store, round_id)
    return [getattr(shown, name) for name in STATE]


def test_the_state_after_a_round_is_the_fleet_s_again_and_the_next_round_starts_from_it(new):
    fleet = new
    spoken, quiet_ones = fleet.devices, quiet(fleet.devices)
    fleet.devices = quiet_ones
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
    fleet.all_learned(restored)
    third = fleet.run_round(400.0, strategy="fedavg", learn=False)
    assert describe_round(fleet.store, third).weights == state_after(fleet, first)[2]
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c6", "c7"]  # the sounds were reported again
    assert fleet.work(fleet.devices[0]).assignments == (ClassAssignment(2, "c6"),)
    fleet.devices = quiet_ones
    again = restore_round(fleet.store, second, 500.0)  # what was undone is done again
    assert state_after(fleet, again) == state_after(fleet, second)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]


def test_changes_of_classes_are_undone_and_devices_are_told_again(new):
    fleet = new
    first = fleet.run_round(100.0, strategy="fedavg")
    merge_class(fleet.store, "c5", "c0", 201.0)
    remove_class(fleet.store, "c1", 202.0)
    restored = restore_round(fleet.store, first, 300.0)
    assert state_after(fleet, restored) == state_after(fleet, first)
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]
    work = fleet.work(fleet.devices[2])
    assert (work.retired, [item.class_id for item in work.merged]) == ((), [])
    assert work.assignments == (ClassAssignment(2, "c5"),)
    fleet.all_learned(restored)
    fleet.run_round(400.0, strategy="fedavg")
    assert names(fleet) == ["c0", "c1", "c2", "c3", "c4", "c5"]
