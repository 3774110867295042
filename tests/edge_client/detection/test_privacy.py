"""docs/privacy.md against what a device keeps of its room: every figure, and how many there are at most."""

import json
import re

import numpy as np

from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.observed_rates import ObservedRates
from edge_client.detection.room_tails import Reached
from edge_client.detection.thresholds import Tail
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.owner_choices import add_wrong_detections
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from tests.support.checkout import ROOT

NOTED, DENIED = "state.sqlite3`: `observed_rates` in `notes", "state.sqlite3`: `wrong_detections"


def rows():
    section = (ROOT / "docs" / "privacy.md").read_text().split("## What stays of a room")[1].split("\n## ")[0]
    return {cells[1].strip(" `"): cells for line in section.splitlines() if len(cells := line.split("|")) == 5}


def test_the_table_names_all_that_is_kept_and_there_is_no_sound_and_no_embedding_in_it(device):
    model = ModelRuntime(read_bundle(device.bundle), 1)
    before = {path.name for path in device.state.folder.iterdir()}
    rates = ObservedRates.open(device.config, device.state.database, model.manifest)
    labels = LabelMap(model.manifest.capacity, reserved=len(model.manifest.background)).add("yes").add("no")
    loaded = Loaded(model, labels, {"yes": Tail(3.0, 0.7), "no": Tail(3.0, 0.7)}, thresholds={"yes": 1e-6, "no": 1e-6})
    loaded = Loaded(**{**vars(loaded), "look": rates.listener(loaded).look})
    sound = np.random.default_rng(0).normal(scale=0.05, size=160_000).astype(np.float32)
    assert Detector(loaded, device.config.detector).push(sound)
    rates.save()
    add_wrong_detections(device.state.database, [(1.0, "yes")])
    assert set(rows()) - {"in the state folder", "---"} == {NOTED, DENIED}
    assert {path.name for path in device.state.folder.iterdir()} - before == {"state.sqlite3"}
    read = device.state.database.rows
    assert read("SELECT * FROM wrong_detections") == [(1, 1.0, "yes")]
    tables = {name for (name,) in read("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {table for table in tables if read(f"SELECT 1 FROM {table} LIMIT 1")} == {"wrong_detections", "notes"}
    ((name, text),) = read("SELECT name, value FROM notes")
    note = json.loads(text)
    assert name == "observed_rates"
    assert set(note["reached"]) == {"yes", "no"}
    named = set(re.findall(r"`(\w+)`", rows()[NOTED][2]))
    assert named == set(note) | set(note["reached"]["yes"])
    assert note["detections"]
    # A count is of a bin and its kind, a detection a time, a bin and its weight: three numbers each.
    for one in note["reached"].values():
        assert all(len(row) == 3 for row in (*one["counts"], *one["newest"]))


def test_there_is_never_more_than_the_table_says():
    reached, rng = Reached(), np.random.default_rng(0)
    for index in range(20_000):
        reached.add(2 / 3600, float(rng.uniform(-100, 100)), float(index) if index % 2 else None)
    note = reached.to_json()
    most = [int(number) for number in re.findall(r"\d+", rows()[NOTED][3])]
    assert len(note["counts"]) <= most[0] == reached.counts.size
    assert len(note["newest"]) == most[1]
    assert len(json.dumps(note)) < 40_000
