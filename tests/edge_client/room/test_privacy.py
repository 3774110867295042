"""docs/privacy.md against the files of a device: what stays of a room, byte by byte."""

import re

import numpy as np
import pytest

from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Detector, Loaded
from edge_client.model.runtime import ModelRuntime
from edge_client.room.memory import RoomMemory
from edge_client.room.reservoir import HOURS, Layout, Reservoir
from edge_client.room.store import add_wrong_detections, write_sample
from edge_client.storage.checked_files import read_checked
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import unpack
from tests.support.checkout import ROOT
from tests.support.taught_device import Device

DOCUMENT = {"layout", "names", "heard_s", "detections", "full"}


def rows():
    section = (ROOT / "docs" / "privacy.md").read_text().split("## What stays of a room")[1].split("\n## ")[0]
    return {cells[1].strip(" `"): cells for line in section.splitlines() if len(cells := line.split("|")) == 5}


def test_the_table_names_every_file_and_every_array_and_no_sound_is_in_them(tmp_path):
    device, model = Device(tmp_path, "base"), ModelRuntime(read_bundle(find_bundle("base")), 1)
    before = {path.name for path in device.state.folder.iterdir()}
    room = RoomMemory.open(device.config, device.state, model.manifest)
    labels = LabelMap(model.manifest.capacity, reserved=len(model.manifest.background)).add("yes").add("no")
    sound = np.random.default_rng(0).normal(scale=0.05, size=160_000).astype(np.float32)
    Detector(Loaded(model, labels, look=room.look), DetectorConfig()).push(sound)
    room.save()
    add_wrong_detections(device.state.database, [(1.0, "yes")])
    files = {path.name for path in device.state.folder.iterdir()} - before
    named = set(rows()) - {"file in the state folder", "---"}
    assert named == {"room.safetensors", "state.sqlite3`: `wrong_detections"}
    assert files == {"room.safetensors", "state.sqlite3"}
    arrays, document = unpack(read_checked(device.state.room_path))
    assert set(arrays) == set(re.findall(r"`(\w+)`", rows()["room.safetensors"][2]))
    assert set(document) == DOCUMENT
    assert arrays["windows"].shape[1:] == (5, 64)  # five windows in a row, as the table says
    kept = device.state.room_path.read_bytes()
    pcm = (sound * 32_767).astype("<i2")
    for at in range(0, len(sound) - 4, 4_000):
        assert not any(kind[at : at + 4].tobytes() in kept for kind in (sound, pcm, sound.astype(np.float16)))
    read = device.state.database.rows
    assert read("SELECT * FROM wrong_detections") == [(1, 1.0, "yes")]
    tables = {name for (name,) in read("SELECT name FROM sqlite_master WHERE type = 'table'")}
    full = {table for table in tables if read(f"SELECT 1 FROM {table} LIMIT 1")}
    assert full == {"wrong_detections"}


@pytest.mark.parametrize("numbers", [64, 448])
def test_the_file_is_never_larger_than_the_table_says(tmp_path, numbers):
    layout = Layout("front end", numbers, 0.25, 2)
    runs = Reservoir(layout).layout.runs * HOURS
    assert runs <= 64 * 24
    full = Reservoir(layout).sample()
    full.windows, full.at_s = np.zeros((runs, 3, numbers), np.float16), np.zeros(runs)
    full.hours, full.taken = np.zeros(runs, np.int8), np.zeros(runs, np.int16)
    full.weights = full.priorities = np.zeros(runs)
    full.heard_s = {(day, hour): 3600.0 for day in range(20_000, 20_060) for hour in range(HOURS)}
    write_sample(tmp_path / "room", layout, full)
    assert "at most 4 MB" in rows()["room.safetensors"][3]
    assert (tmp_path / "room").stat().st_size <= 4.2e6
