"""A sound that the fleet knows under another name: whole devices and a real aggregator, and an owner who disagrees."""

import pytest

from fleet_protocol.ready_bundles import find_bundle
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

SETTINGS = {"epochs": 4, "augmented_copies": 1, "impressions": 2, "impression_steps": 2}


def teach_halt(device):
    """Have an owner teach what the fleet calls "down" under a name of his own."""
    write_clips(device.clips, "down", 12, seed=7)
    (device.clips / "down").rename(device.clips / "halt")


def linked(device):
    slots = device.progress().label_map.slots
    return {slot.name: slot.class_id for slot in slots}


def test_a_sound_under_another_name_joins_its_class_until_the_owner_relabels_it(fleet_of):
    server, device = fleet_of({"base": find_bundle("base")})
    first = device("first", "base", ("yes", "no"))
    teach_halt(first)
    first.start()
    device("second", "base", ("no", "down")).start()
    enrolled(server, 2)
    found = finished(server, open_round(server, settings=SETTINGS))
    (group,) = found["discovery"]["groups"]
    assert group == {"class_id": "down", "members": [0], "known": True}
    assert linked(first) == {"halt": "down", "no": "no", "yes": "yes"}
    with server.client() as client:
        assert [info["name"] for info in client.get("/v1/classes").json()] == ["yes", "no", "up", "down"]

    first.command("clips", "relabel", "--label", "halt", "horn")
    found = finished(server, open_round(server, settings=SETTINGS))
    (group,) = found["discovery"]["groups"]
    assert (group["class_id"], group["known"]) == ("c4", False)
    assert linked(first)["horn"] == "c4"
    assert "Traceback" not in first.log()
