"""The first hour: a fleet of two devices on one's own recordings, by the five commands of docs/first-round.md."""

import json

import pytest

from benchmarks.first_round import free_port, next_commands
from edge_client.config import load_config
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle
from tests.support.commands import OwnDesk, failed
from tests.support.sounds import write_clips, write_two_homes

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path):
    found = OwnDesk(tmp_path)
    yield found
    found.close()


def test_two_devices_have_a_round_on_ones_own_recordings_after_five_commands(desk):
    write_two_homes(desk.folder)

    new = desk.type(f"auricle-aggregator new --from recordings --data fleet --port {free_port()}")
    assert new.returncode == 0, new.stderr
    assert "32 clips of down, no, up, yes" in new.stdout
    run, join, start = next_commands(new.stdout)
    desk.leave_running(run, "server.log")
    desk.wait_for("server.log", '"url"')
    for owner in ("kitchen", "hall"):
        desk.leave_running(join.replace("FOLDER", owner), f"{owner}.log")
        desk.wait_for(f"{owner}.log", "enrolled as")
    round_ = desk.type(start)
    assert round_.returncode == 0, round_.stderr + "".join(log.read_text() for log in desk.folder.glob("*.log"))
    assert "round 1: prototypes, 2 devices, open" in round_.stdout
    assert "round 1 done after" in round_.stdout
    assert {"kitchen", "hall"} <= {
        line.split()[0] for line in round_.stdout.splitlines() if " of " in line and "classes" in line
    }

    assert "first model" in round_.stdout  # before the round the devices had none
    assert " before " not in round_.stdout

    config = load_config(desk.folder / "kitchen.device" / "edge.toml")
    assert (config.device.name, config.recordings.folder) == ("kitchen", desk.folder / "kitchen")
    assert config.model.bundle.read_bytes() == find_bundle("base").read_bytes()
    state = DeviceState(config.device.state)
    assert state.blobs.public_set(read_bundle(config.model.bundle).manifest.feature_settings) is not None
    assert set(state.model.load(config.model.bundle).progress.label_map.labels) >= {"yes", "no", "up"}
    listed = json.loads(desk.type("auricle-aggregator devices list --data fleet --json").stdout)
    assert {(info["name"], info["clips"]) for info in listed} == {("kitchen", 36), ("hall", 36)}


def test_a_fleet_that_cannot_be_started_is_explained_and_nothing_is_left(desk):
    failed(desk.type("auricle-aggregator new --from nowhere"), "no public set", "nowhere")
    write_clips(desk.folder / "recordings", "yes", 2, seed=0)
    spoiled = desk.type("auricle-aggregator new --from recordings --bundle cnn1 --devices 0")
    failed(spoiled, "devices must be from 1")
    assert [path.name for path in desk.folder.iterdir()] == ["recordings"]  # the data folder is gone again
    (desk.folder / "notes").mkdir()
    (desk.folder / "notes" / "a.txt").write_text("")
    for line, *words in (
        ("auricle-aggregator new --from recordings --data notes", "--data notes", "not empty"),
        ("auricle-aggregator new --from recordings --bundle base9", "'base9'", "ready: "),
        ("auricle-aggregator new --from recordings --port 0", "--port 0"),
        ("auricle-aggregator new --from recordings --host 0.0.0.0", "--tls auto"),
    ):
        failed(desk.type(line), *words)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["notes", "recordings"]
