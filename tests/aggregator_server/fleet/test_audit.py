"""The audit: what a fleet did stands there, newest first, and only if the change itself was kept."""

import contextlib

from aggregator_server.fleet.audit import SERVER, Actor, audit, list_entries
from aggregator_server.fleet.classes import rename_class
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.opening import open_round
from aggregator_server.schemas import RoundRequest
from tests.support.core_fleet import refusal

ANNA = Actor("Anna", "192.0.2.7")


def entries(fleet, what=None, before=None, limit=100):
    return list_entries(fleet.store, before, limit, what)


def test_a_round_its_classes_and_its_end_are_noted(fleet):
    fleet.run_round()
    opened, closed = entries(fleet, "round_opened")[0], entries(fleet, "round_closed")[0]
    assert opened.details == {"round_id": 1, "strategy": "zero_shot"}
    assert (opened.who, opened.at.timestamp()) == ("server", 100.0)
    assert closed.details == {"round_id": 1, "state": "done", "reason": None}
    made = [(entry.details["class_id"], entry.details["round_id"]) for entry in entries(fleet, "class_made")]
    assert made == [("c5", 1), ("c4", 1)]
    enrolled = [entry.details["device_id"] for entry in entries(fleet, "device_enrolled")]
    assert enrolled == [device.device_id for device in reversed(fleet.devices)]
    assert len(entries(fleet, "public_set_published")) == 1


def test_who_did_it_from_where_is_noted(fleet):
    open_round(fleet.store, RoundRequest("zero_shot"), 5.0, ANNA)
    cancel_round(fleet.store, 1, 6.0, ANNA)
    rename_class(fleet.store, "c1", "tea kettle", ANNA)
    change_devices(fleet.store, [fleet.devices[0].device_id], "revoke", 7.0, ANNA)
    change_devices(fleet.store, [fleet.devices[0].device_id], "revoke", 8.0, ANNA)  # changes nothing
    found = [(entry.what, entry.who, entry.address) for entry in entries(fleet, limit=4)]
    kinds = ("device_revoked", "class_renamed", "round_cancelled", "round_opened")
    assert found == [(kind, "Anna", "192.0.2.7") for kind in kinds]
    assert entries(fleet, "class_renamed")[0].details == {"class_id": "c1", "before": "word 1", "name": "tea kettle"}


def test_what_was_refused_leaves_no_entry(fleet):
    before = entries(fleet)
    with refusal("class_name_taken"):
        rename_class(fleet.store, "c1", "word 2", ANNA)
    with contextlib.suppress(RuntimeError), fleet.store.writing() as session:
        audit(session, "round_opened", SERVER, 9.0, round_id=77)
        raise RuntimeError
    assert entries(fleet) == before
