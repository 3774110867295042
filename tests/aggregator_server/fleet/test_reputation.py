"""What raises and lowers the suspicion against a device, and when it is put in quarantine."""

import pytest

from aggregator_server.fleet.devices import list_devices
from aggregator_server.fleet.reputation import note_round
from aggregator_server.limits import SUSPICION

FAR = {"distances": {"head": 4.2}, "against": False}


@pytest.mark.parametrize(("why", "quarantined"), [(FAR, True), (FAR | {"explained": True}, False)])
def test_a_device_whose_clips_explain_its_updates_is_noted_but_not_put_in_quarantine(fleet, why, quarantined):
    suspect, *others = [device.device_id for device in fleet.devices]
    for round_id in range(1, SUSPICION + 1):
        with fleet.store.writing() as session:
            found = note_round(session, round_id, [suspect, *others], {suspect: why}, 100.0)
        assert found == ((suspect,) if quarantined and round_id == SUSPICION else ())
    reputation = {info.device_id: info.conduct for info in list_devices(fleet.store)}
    assert reputation[suspect].screened == SUSPICION
    assert (reputation[suspect].quarantined_at is not None) == quarantined
    assert all(reputation[device].counted == SUSPICION for device in others)
