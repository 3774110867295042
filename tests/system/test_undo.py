"""A class that an operator retires leaves the devices that only adopted it; its owner keeps sound and clips."""

import pytest

from edge_client.clips.files import check_label
from fleet_protocol.ready_bundles import find_bundle
from tests.support.device_fleet import enrolled, finished, open_round
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow


def test_a_retired_class_leaves_devices_without_clips_of_it_and_comes_back_when_the_round_is_restored(fleet_of):
    server, device = fleet_of({"base": find_bundle("base")}, own=6)
    owner, other = device("owner", "base", ("yes", "stop")), device("other", "base", ("no", "up"))
    for made in (owner, other):
        with (made.folder / "edge.toml").open("a") as config:
            config.write("teach_epochs = 10\n")  # of [training], the last section
        made.start()
    enrolled(server, 2)
    first = open_round(server, strategy="prototypes", settings={})
    finished(server, first)
    assert "sound-4" in other.progress().listening_labels.labels
    with server.client() as admin:
        admin.delete("/v1/classes/c4").raise_for_status()
        retired = admin.get("/v1/rounds").json()[0]["round_id"]
        wait_for(lambda: admin.get("/v1/rounds").json()[0]["learned"] == 2, what="both devices to follow")
        assert "sound-4" not in other.progress().listening_labels.labels
        assert other.progress().learned == retired
        links = dict(zip(owner.progress().label_map.names, owner.progress().label_map.class_ids, strict=True))
        assert links["stop"] == "c4"  # its owner's alone: not reported again
        finished(server, open_round(server, strategy="prototypes", settings={}))
        assert len(admin.get("/v1/classes").json()) == 4
        admin.post(f"/v1/rounds/{first}/restore").raise_for_status()
        wait_for(lambda: admin.get("/v1/rounds").json()[0]["learned"] == 2, what="both devices to follow")
        assert "sound-4" in other.progress().listening_labels.labels
        assert len(admin.get("/v1/classes").json()) == 5
    assert sum(1 for _ in (owner.clips / check_label("stop")).iterdir()) >= 6
    assert all("Traceback" not in made.log() for made in (owner, other))
