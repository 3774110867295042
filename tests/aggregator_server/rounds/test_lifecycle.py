"""Rounds, through the core that server and simulator share: what closes them, what a device gets, what is refused."""

import pytest
from sqlalchemy import event

from aggregator_server import errors
from aggregator_server.fleet.classes import list_classes, rename_class
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.fleet.devices import list_devices
from aggregator_server.rounds.devices.work import acknowledge
from aggregator_server.rounds.publishing import describe_public_set
from aggregator_server.rounds.replies import describe_round, list_rounds, summarise_round
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassAssignment, Learned
from tests.support.aggregator_process import FakeDevice, SharingDevice
from tests.support.core_fleet import CoreFleet, devices, quiet, refusal


def state(fleet, round_id):
    summary = summarise_round(fleet.store, round_id)
    return summary.state, summary.reason


def test_the_round_counts_the_devices_that_refused_its_result(fleet):
    round_id = fleet.run_round(learn=False)
    for device in fleet.devices[:3]:
        refused = device is fleet.devices[0]
        metrics = {"held_out_before": 90.0, "held_out_after": 50.0 if refused else 95.0}
        acknowledge(fleet.store, device.device_id, Learned(round_id, metrics, kept_own=refused))
    detail = describe_round(fleet.store, round_id)
    assert (detail.summary.learned, detail.summary.kept_own) == (3, 1)
    shown = {p.device_id: p for p in detail.participants}
    assert shown[fleet.devices[0].device_id].kept_own
    assert shown[fleet.devices[0].device_id].learned_metrics["held_out_after"] == 50
    assert not any(shown[device.device_id].kept_own for device in fleet.devices[1:])


def test_the_next_round_starts_from_the_consensus_of_the_last(fleet):
    first = fleet.run_round()
    fleet.devices = quiet(fleet.devices)
    result = describe_round(fleet.store, first)
    fleet.open(200.0)
    work = fleet.work(fleet.devices[0], 201.0)
    assert work.kind == "contribute"
    assert (work.public_set, work.consensus) == (result.result_public_set, result.result_consensus)
    assert len(work.classes) == 6


def test_a_device_that_was_away_gets_the_assignments_of_every_round_that_it_missed(fleet):
    fleet.run_round(100.0, learn=False)
    away, *others = fleet.devices
    for device in others:
        fleet.learned(device, 1)
    fleet.devices = quiet(others)
    for now in (200.0, 300.0):
        round_id = fleet.open(now)
        for device in fleet.devices:
            fleet.upload(device, now + 1)
        assert fleet.advance(now + 600) == round_id  # the deadline passed, three of four are a quorum
        fleet.all_learned(round_id)
    work = fleet.work(away, 1000.0)
    assert (work.kind, work.round_id, work.assignments) == ("learn", 3, (ClassAssignment(2, "c4"),))
    fleet.learned(away, 3)
    assert fleet.work(away, 1000.0) is None


def test_a_report_that_is_repeated_after_its_answer_got_lost_is_answered_again(fleet):
    fleet.run_round(100.0)  # the device says that it learned, then forgets everything
    round_id = fleet.run_round(200.0, learn=False)
    assert len(list_classes(fleet.store)) == 6
    assert describe_round(fleet.store, round_id).discovery is None
    assert fleet.work(fleet.devices[2], 300.0).assignments == (ClassAssignment(2, "c5"),)


def test_at_the_deadline_a_quorum_suffices(fleet):
    round_id = fleet.open(100.0, deadline_s=50, quorum=0.5)
    assert fleet.deadline() == 150.0
    for device in fleet.devices[:2]:
        fleet.upload(device)
    assert fleet.advance(149.9) is None
    assert fleet.work(fleet.devices[2], 150.0) is None  # too late to be asked
    assert fleet.advance(150.0) == round_id
    assert state(fleet, round_id) == ("done", None)
    assert fleet.deadline() is None


def test_at_the_deadline_without_a_quorum_the_round_fails_and_nothing_changes(fleet):
    before = describe_public_set(fleet.store)
    round_id = fleet.open(100.0, deadline_s=50, quorum=0.75)
    for device in fleet.devices[:2]:
        fleet.upload(device)
    assert fleet.advance(150.0) == round_id
    kind, reason = state(fleet, round_id)
    assert kind == "failed"
    assert all(words in reason for words in ("2 of 4", "3 were needed", "quorum 0.75"))
    assert describe_public_set(fleet.store) == before
    assert fleet.work(fleet.devices[0], 151.0) is None
    unanswered = fleet.open(200.0, deadline_s=50, quorum=0.0)
    assert fleet.advance(250.0) == unanswered
    assert state(fleet, unanswered)[0] == "failed"


def test_a_late_upload_is_refused_before_and_after_the_round_was_closed(fleet):
    round_id = fleet.open(100.0, deadline_s=50, quorum=0.25)
    late, early = fleet.devices[:2]
    data = fleet.body(late, fleet.work(late))
    fleet.upload(early)
    with refusal("round_closed", r"1\.5 s ago"):
        fleet.send(late, round_id, data, 151.5)
    fleet.advance(152.0)
    with refusal("round_closed", "is done"):
        fleet.send(late, round_id, data, 153.0)
    with refusal("round_closed"):  # a clock that was set back does not open it again
        fleet.send(late, round_id, data, 120.0)
    assert [p.upload is None for p in describe_round(fleet.store, round_id).participants] == [True, False, True, True]


def test_a_revoked_device_is_not_waited_for_and_its_upload_is_not_used(fleet):
    round_id = fleet.open()
    revoked, away, *others = fleet.devices
    for device in (revoked, *others):
        fleet.upload(device)
    change_devices(fleet.store, [revoked.device_id], "revoke", 103.0)
    change_devices(fleet.store, [away.device_id], "revoke", 103.0)
    assert fleet.advance() == round_id
    detail = describe_round(fleet.store, round_id)
    assert set(detail.accuracies) == {device.device_id for device in others}
    with pytest.raises(errors.DeviceRevokedError):
        fleet.work(revoked)
    assert [info.revoked_at is None for info in list_devices(fleet.store)] == [False, False, True, True]


def test_a_round_whose_devices_were_all_revoked_fails(fleet):
    round_id = fleet.open()
    for device in fleet.devices:
        change_devices(fleet.store, [device.device_id], "revoke", 101.0)
    assert fleet.advance() == round_id
    assert state(fleet, round_id) == ("failed", "every selected device was revoked, or put in quarantine")


@pytest.mark.parametrize(("strategy", "place"), [("zero_shot", 3), ("fedavg", 20), ("zero_shot", -5)])
def test_a_round_goes_on_without_an_upload_that_was_damaged_on_disk(tmp_path, strategy, place):
    fleet = CoreFleet(tmp_path, devices(kind={"zero_shot": FakeDevice, "fedavg": SharingDevice}[strategy]))
    fleet.publish_model()
    round_id = fleet.open(strategy=strategy)
    receipts = [fleet.upload(device) for device in fleet.devices]
    path = fleet.store.blobs.path(receipts[1].sha256)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    fleet.advance()
    shown = describe_round(fleet.store, round_id)
    assert shown.summary.state == "done"
    assert shown.damaged == (fleet.devices[1].device_id,)


def test_a_round_whose_undamaged_uploads_do_not_suffice_fails_and_names_the_damaged_ones(fleet):
    round_id = fleet.open(quorum=1.0)
    receipts = [fleet.upload(device) for device in fleet.devices]
    fleet.store.blobs.path(receipts[2].sha256).unlink()
    fleet.advance()
    kind, reason = state(fleet, round_id)
    assert kind == "failed"
    assert all(words in reason for words in (fleet.devices[2].device_id, "damaged", "3 of 4", "open the round again"))


def test_names_given_by_people_are_unique_and_go_into_the_next_public_set(fleet):
    rename_class(fleet.store, "c0", "yes")
    rename_class(fleet.store, "c0", "Yes")  # its own name in other letters is free to it
    with refusal("class_name_taken", "'c0'"):
        rename_class(fleet.store, "c1", "YES")
    with pytest.raises(errors.ClassNotFoundError, match="c0, c1"):
        rename_class(fleet.store, "c9", "no")
    rename_class(fleet.store, "c1", "stop")
    fleet.run_round()
    names = [info.name for info in list_classes(fleet.store)]
    assert names == ["Yes", "stop", "word 2", "word 3", "Stop (2)", "go"]
    grown = PublicSet.unpack(fleet.store.blobs.read(describe_public_set(fleet.store).sha256))
    assert [info.name for info in grown.classes] == names


def statements_of(folder, count):
    """SQL statements of: opening, one device's work and upload, closing, one device's learning, listing."""
    fleet, counts = CoreFleet(folder, devices(count)), []
    first, *others = fleet.devices
    event.listen(fleet.store.database.engine, "before_cursor_execute", lambda *_: counts.append(counts.pop() + 1))
    for step in (
        lambda: [fleet.open()],
        lambda: [fleet.upload(first)],
        lambda: [fleet.upload(device) for device in others],
        lambda: [fleet.advance()],
        lambda: [fleet.work(first), fleet.learned(first, 1)],
        lambda: [describe_round(fleet.store, 1), list_rounds(fleet.store, None, 100)],
    ):
        counts.append(0)
        step()
    fleet.store.close()
    del counts[2]
    return counts


def test_a_larger_fleet_takes_no_more_statements(tmp_path):
    assert statements_of(tmp_path / "small", 3) == statements_of(tmp_path / "large", 40)
