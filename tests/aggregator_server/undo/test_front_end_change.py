"""The fleet's front end is another one: what stays, what begins anew, who may take part, and the way back."""

import dataclasses
import time

import pytest

from aggregator_server import errors
from aggregator_server.fleet.classes import list_classes, rename_class
from aggregator_server.fleet.devices import describe_device
from aggregator_server.fleet.front_end import front_end_wanted
from aggregator_server.fleet.shared_models import current_model
from aggregator_server.rounds.publishing import describe_public_set, publish_public_set
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.undo.class_changes import remove_class
from aggregator_server.undo.front_end_change import change_front_end
from aggregator_server.undo.reports import list_class_history
from aggregator_server.undo.restoring import restore_round
from fleet_protocol.messages import WantedFrontEnd
from fleet_protocol.public_set import PublicSet
from tests.support.aggregator_process import SETTINGS
from tests.support.core_fleet import CoreFleet
from tests.support.other_front_end import BASE, other_public_set

DAY_S = 86_400.0


@pytest.fixture
def fleet(tmp_path):
    fleet = CoreFleet(tmp_path / "data")
    yield fleet
    fleet.store.close()


def change(fleet, bundle="base", data=None, grace_s=DAY_S, now=None):
    return change_front_end(fleet.store, bundle, data, grace_s, time.time() if now is None else now)


def follow(fleet, settings=BASE):
    """Let all devices say that they have another front end by now, and report nothing new."""
    fleet.devices = [dataclasses.replace(device, settings=settings, reports=(), known=()) for device in fleet.devices]
    for device in fleet.devices:
        fleet.enrol(device)


def published(fleet):
    return PublicSet.unpack(fleet.store.blobs.read(describe_public_set(fleet.store).sha256))


def test_classes_stay_rounds_begin_anew_and_the_way_back_leads_to_the_state_before(fleet):
    fleet.publish_model()
    first = fleet.run_round(100.0)  # discovers c4 and c5
    rename_class(fleet.store, "c4", "siren")
    before = [info.class_id for info in list_classes(fleet.store)]
    device = fleet.devices[0]
    told = change(fleet, data=other_public_set().pack())
    assert (told.bundle, told.features, told.devices, len(told.to_follow)) == ("base", BASE.digest, 4, 4)
    assert "siren" in told.without_recordings
    assert [info.class_id for info in list_classes(fleet.store)] == before
    assert published(fleet).class_ids == tuple(before)
    assert published(fleet).settings.digest == BASE.digest
    with fleet.store.reading() as session:
        assert current_model(session).architecture == "linear"
    operation = list_rounds(fleet.store, None, 1)[0]
    assert (operation.operation, operation.undone_by) == ("front_end", None)
    assert describe_round(fleet.store, first).summary.undone_by == operation.round_id
    assert fleet.work(device) is None
    assert front_end_wanted(fleet.store, device.settings.digest) == WantedFrontEnd("base", BASE.digest)
    with pytest.raises(errors.NoDevicesError):
        fleet.open(200.0)
    with pytest.raises(errors.RoundNotDoneError, match="another front end than base"):
        restore_round(fleet.store, first, (), 200.0)
    with pytest.raises(errors.RoundNotDoneError, match="with the fleet's front end"):
        remove_class(fleet.store, "c4", 200.0)
    with fleet.store.blobs.receive() as incoming:
        incoming.write(other_public_set(names=("other",)).pack())
        with pytest.raises(errors.PublicSetInUseError):
            publish_public_set(fleet.store, incoming)

    follow(fleet)
    assert front_end_wanted(fleet.store, BASE.digest) is None
    second = fleet.run_round(300.0)
    assert describe_round(fleet.store, second).consensus is None  # it began anew
    assert describe_round(fleet.store, second).result_consensus is not None

    change(fleet, "cnn2", now=time.time())
    follow(fleet, SETTINGS)
    assert published(fleet).settings.digest == SETTINGS.digest
    restored = restore_round(fleet.store, first, (), 400.0)
    assert describe_round(fleet.store, restored).result_consensus == describe_round(fleet.store, first).result_consensus
    assert [info.class_id for info in list_classes(fleet.store)] == before
    assert fleet.work(fleet.devices[0]).round_id == restored
    fleet.all_learned(restored)
    fleet.run_round(500.0)


def test_a_device_that_changed_learns_again_from_the_round_that_it_had_learned_from(fleet):
    change(fleet, data=other_public_set().pack())
    follow(fleet)
    round_id = fleet.run_round(200.0)
    assert fleet.work(fleet.devices[0]) is None
    fleet.enrol(dataclasses.replace(fleet.devices[0], settings=SETTINGS))  # its owner went back,
    assert fleet.work(fleet.devices[0]) is None
    fleet.enrol(fleet.devices[0])  # and forth
    assert fleet.work(fleet.devices[0]).round_id == round_id
    assert fleet.work(fleet.devices[1]) is None


def test_classes_that_wait_for_an_operator_are_proposed_again_on_the_new_features(tmp_path):
    fleet = CoreFleet(tmp_path / "data")
    fleet.store.review_classes = True
    fleet.run_round(100.0)
    states = {item.state for item in list_class_history(fleet.store)}
    assert "proposed" in states
    change(fleet, data=other_public_set().pack())
    assert {item.state for item in list_class_history(fleet.store)} == {"active", "undone"}
    fleet.store.close()


def test_a_new_device_with_the_former_front_end_comes_in_during_the_grace_and_a_known_one_always(fleet):
    change(fleet, data=other_public_set().pack(), grace_s=DAY_S)
    newcomer = dataclasses.replace(fleet.devices[0], number=9)
    fleet.enrol(newcomer)
    found = describe_device(fleet.store, newcomer.device_id)
    assert "it has time until" in found.behind
    change(fleet, grace_s=0, now=-1.0)
    with pytest.raises(errors.ForeignFeaturesError):
        fleet.enrol(dataclasses.replace(fleet.devices[0], number=10))
    fleet.enrol(newcomer)
    late = describe_device(fleet.store, newcomer.device_id)
    assert late.outdated
    assert "the time for that is over" in late.behind
    follow(fleet)
    assert describe_device(fleet.store, fleet.devices[0].device_id).behind == ""


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        ({"bundle": "../base"}, errors.InvalidRequestError, "no ready bundle"),
        ({"grace_s": -1.0}, errors.InvalidRequestError, "grace_s"),
        ({"grace_s": float("nan")}, errors.InvalidRequestError, "grace_s"),
        ({}, errors.PublicSetNotFoundError, "--from FOLDER"),
        ({"data": b"no public set"}, errors.MalformedPublicSetError, "public set"),
        ({"data": other_public_set(names=("parrot",)).pack()}, errors.MalformedPublicSetError, "parrot"),
        ({"bundle": "words", "data": other_public_set().pack()}, errors.ForeignFeaturesError, "--bundle words"),
    ],
)
def test_what_cannot_be_changed_is_refused_with_the_way_out_and_nothing_changes(fleet, request_, error, said):
    before = describe_public_set(fleet.store)
    with pytest.raises(error, match=said):
        change(fleet, **request_)
    assert describe_public_set(fleet.store) == before
    assert list_rounds(fleet.store, None, 9) == ()


def test_an_open_round_is_waited_for_and_the_same_front_end_again_changes_the_grace_alone(fleet):
    fleet.open()
    with pytest.raises(errors.RoundOpenError):
        change(fleet, data=other_public_set().pack())
    assert change(fleet, "cnn2").bundle == ""  # it has that one: nothing to change
    fleet.upload_all()
    fleet.advance()
    assert change(fleet, data=other_public_set().pack(), grace_s=10.0, now=100.0).grace_until.timestamp() == 110.0
    assert change(fleet, grace_s=20.0, now=100.0).grace_until.timestamp() == 120.0
    assert len(list_rounds(fleet.store, None, 9)) == 2


def test_rows_are_found_by_a_class_s_name_too_and_those_of_strangers_are_left_out(fleet):
    change(fleet, data=other_public_set(names=("Word 2", "parrot"), each=5).pack())
    present = published(fleet)
    assert [present.class_ids[label] for label in present.labels] == 5 * ["c2"]
