"""What is the same in all devices' work is read once for each state of the database, and never out of date."""

import pytest

from aggregator_server.errors import DeviceRevokedError
from aggregator_server.fleet.classes import rename_class
from aggregator_server.fleet.devices import revoke
from aggregator_server.rounds.devices.work import look, next_work

NOW = 101.0


def asked(fleet, device, now=NOW):
    """What the route does: look whether there may be work, and then for it."""
    seen = look(fleet.store, device.device_id, now)
    if seen.version is None:
        return None
    return seen.work or next_work(fleet.store, device.device_id, now, seen.version)


def test_it_is_the_work_that_is_read_anew_for_each_device(fleet):
    first = fleet.run_round()
    fleet.open(now=200.0)
    for device in fleet.devices:
        found = asked(fleet, device, 201.0)
        assert found == next_work(fleet.store, device.device_id, 201.0)
        assert (found.kind, found.round_id) == ("contribute", first + 1)


def test_the_second_device_that_asks_gets_what_was_read_for_the_first(fleet):
    fleet.open()
    first, second = fleet.devices[:2]
    assert look(fleet.store, first.device_id, NOW).work is None
    found = asked(fleet, first)
    assert look(fleet.store, second.device_id, NOW).work is found


def test_who_reported_a_sound_that_is_a_class_now_gets_more_than_others(fleet):
    round_id = fleet.run_round(learn=False, new_classes=2)
    reported, other = fleet.devices[0], fleet.devices[3]
    for _ in range(2):
        told = asked(fleet, reported)
        assert (told.kind, told.round_id, len(told.assignments)) == ("learn", round_id, 1)
        assert asked(fleet, other).assignments == ()


def test_a_class_that_was_renamed_in_between_has_its_new_name(fleet):
    fleet.open()
    before = asked(fleet, fleet.devices[0])
    rename_class(fleet.store, "c0", "another name")
    after = asked(fleet, fleet.devices[1])
    assert [info.name for info in before.classes] != [info.name for info in after.classes]
    assert after.classes[0].name == "another name"


def test_who_has_nothing_to_do_is_told_without_a_search(fleet):
    device = fleet.devices[0]
    assert look(fleet.store, device.device_id, NOW).version is None
    round_id = fleet.open(deadline_s=60)
    assert look(fleet.store, device.device_id, NOW).version is not None
    assert look(fleet.store, device.device_id, NOW + 60).version is None
    for other in fleet.devices:
        fleet.upload(other)
    assert look(fleet.store, device.device_id, NOW).version is None
    assert fleet.advance() == round_id
    assert asked(fleet, device).kind == "learn"
    fleet.learned(device, round_id)
    assert look(fleet.store, device.device_id, NOW).version is None


def test_a_device_that_is_revoked_while_it_waits_is_told(fleet):
    revoke(fleet.store, fleet.devices[0].device_id, NOW)
    with pytest.raises(DeviceRevokedError):
        look(fleet.store, fleet.devices[0].device_id, NOW)
