"""Which classes go with the devices that sent them."""

from aggregator_server.fleet.class_backing import add_senders, leaving
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.operator_changes.merge_and_retire import merge_class


def revoked(fleet, device):
    """What goes once a device is revoked."""
    change_devices(fleet.store, [device.device_id], "revoke", 300.0)
    with fleet.store.reading() as session:
        return leaving(session)


def send(fleet, *sent):
    with fleet.store.writing() as session:
        add_senders(session, [(class_id, device.device_id) for class_id, device in sent])


def test_a_class_of_the_public_set_stays_where_the_only_device_that_met_its_sound_is_revoked(fleet):
    fleet.run_round()
    device = fleet.devices[3]
    send(fleet, ("c0", device))  # as where its new sound was recognised as that class
    assert revoked(fleet, device) == ()


def test_a_class_stays_that_an_honest_device_sent_under_a_name_that_was_merged_into_it(fleet):
    fleet.run_round()  # devices 1 and 2 send c4, device 3 sends c5
    merge_class(fleet.store, "c4", "c5", 200.0)
    assert revoked(fleet, fleet.devices[2]) == ()
    assert revoked(fleet, fleet.devices[0]) == ()
    assert revoked(fleet, fleet.devices[1]) == ("c5",)
