"""What is known of a room survives a restart, and a file that does not hold together counts as none."""

import dataclasses

import numpy as np
import pytest

from edge_client.room.reservoir import Layout, Reservoir
from edge_client.room.store import add_wrong_detections, read_sample, read_wrong_detections, write_sample
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.database import FILE, Database
from fleet_protocol.tensors import pack, unpack

LAYOUT = Layout("front end", 4, 0.25, 2)


@pytest.fixture
def path(tmp_path):
    clock = [1_767_571_200.0]
    found = Reservoir(LAYOUT, clock=lambda: clock[0], seed=0)
    rng = np.random.default_rng(0)
    for index in range(3000):
        clock[0] += 0.25
        found.look(
            None if index % 7 == 0 else rng.normal(size=4), float(rng.random()), "yes" if index % 50 == 0 else ""
        )
    write_sample(tmp_path / "room.safetensors", LAYOUT, found.sample())
    return tmp_path / "room.safetensors"


def test_a_sample_comes_back_as_it_was(path):
    sample = read_sample(path, LAYOUT)
    assert len(sample.at_s) == LAYOUT.runs
    assert np.isnan(sample.windows).any()
    assert np.isfinite(sample.passed).sum() == 1
    assert sum(sample.detections.values()) == 60
    write_sample(path.with_name("again"), LAYOUT, sample)
    assert path.with_name("again").read_bytes() == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_another_front_end_or_pace_made_is_thrown_away(path):
    for other in ({"features": "another"}, {"hop_s": 0.5}, {"averaged": 3}):
        assert read_sample(path, dataclasses.replace(LAYOUT, **other)) is None
    assert read_sample(path.with_name("none"), LAYOUT) is None


def test_a_file_that_was_written_in_another_way_counts_as_none(path):
    arrays, document = unpack(read_checked(path))
    for changed in (document | {"heard_s": "x"}, document | {"full": [True]}, {"layout": document["layout"]}):
        write_checked(path, pack(arrays, changed))
        assert read_sample(path, LAYOUT) is None


def test_wrong_detections_are_remembered_once_and_the_newest_alone(tmp_path):
    database = Database(tmp_path / FILE)
    assert read_wrong_detections(database) == []
    add_wrong_detections(database, [(1.0, "yes")])
    add_wrong_detections(database, [(1.0, "yes"), (2.0, "no")])
    assert read_wrong_detections(database) == [(1.0, "yes"), (2.0, "no")]
    add_wrong_detections(database, [(float(moment), "up") for moment in range(1000)])
    assert read_wrong_detections(database) == [(float(moment), "up") for moment in range(500, 1000)]
