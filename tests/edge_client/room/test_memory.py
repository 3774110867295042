"""A running device's memory of its room: saved, taken up by thresholds, and gone when its owner wants that."""

import dataclasses
import time

import numpy as np
import pytest

from edge_client.config.sections import DetectorConfig, LearningConfig
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.thresholds import Tail
from edge_client.model.runtime import ModelRuntime
from edge_client.owner import Teaching
from edge_client.owner_changes import purge
from edge_client.room.memory import RoomMemory, layout_of, tails_here
from edge_client.room.observed_rates import observed_rates, rate_lines
from edge_client.room.store import add_wrong_detections, read_sample, read_wrong_detections, remove_wrong_detections
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle

BASE = find_bundle("base")
DAY = 20_000


@pytest.fixture(scope="module")
def model():
    return ModelRuntime(read_bundle(BASE), 1)


def noise(seconds, seed=0):
    return np.random.default_rng(seed).normal(scale=0.02, size=16_000 * seconds).astype(np.float32)


def label_map(model):
    manifest = model.manifest
    return LabelMap(manifest.capacity, reserved=len(manifest.background)).add("yes").add("no")


def test_a_front_end_that_is_no_embedding_has_no_memory_of_its_room(bundles):
    assert layout_of(read_bundle(bundles["cnn2"]).manifest, DetectorConfig()) is None
    found = layout_of(read_bundle(BASE).manifest, DetectorConfig())
    assert (found.numbers, found.hop_s, found.averaged, found.windows) == (64, 0.25, 2, 5)


def test_what_was_heard_survives_a_restart_and_moves_the_thresholds(device, model):
    manifest, labels = model.manifest, label_map(model)
    room = RoomMemory.open(device.config, device.state, manifest)
    detector = Detector(Loaded(model, labels, look=room.look), DetectorConfig())
    detector.push(noise(30))
    room.save()
    tails = {"yes": Tail(3.0, 0.7), "no": Tail(9.0, 0.7)}
    found = tails_here(device.config, device.state, model, labels, tails, {}, {})
    assert found["yes"].hours == pytest.approx(28 / 3600, rel=0.05)
    assert len(found["yes"].logits) == 14
    again = RoomMemory.open(device.config, device.state, manifest)
    assert again.status(1.0)["hours"] == room.status(1.0)["hours"] > 0


def test_purging_the_clips_makes_a_running_device_forget_its_room(device, model):
    room = RoomMemory.open(device.config, device.state, model.manifest)
    detector = Detector(Loaded(model, label_map(model), look=room.look), DetectorConfig())
    detector.push(noise(10))
    room.save()
    add_wrong_detections(device.state.database, [(1.0, "yes")])
    purge(Teaching.open(device.folder / "edge.toml"))
    assert not device.state.room_path.exists()
    assert read_wrong_detections(device.state.database) == []
    room.save()
    assert not device.state.room_path.exists()  # nothing of before comes back
    assert room.follow()
    assert room.status(1.0)["hours"] == 0
    detector.push(noise(10))
    room.save()
    layout = layout_of(model.manifest, DetectorConfig())
    assert 4 <= len(read_sample(device.state.room_path, layout).at_s) <= 6


def test_thresholds_follow_at_once_when_the_owner_says_that_a_detection_was_wrong(device, model):
    labels = label_map(model)
    room = RoomMemory.open(device.config, device.state, model.manifest)
    tails = {"yes": Tail(0.0, 0.5), "no": Tail(9.0, 0.7)}

    def heard_from():
        found = tails_here(device.config, device.state, model, labels, tails, {}, {})["yes"]
        return found.threshold(1.0), int(found.taken.sum())

    embedding = np.random.default_rng(3).normal(size=64).astype(np.float32)
    for index in range(80):  # twenty seconds, in which it was detected once
        room.look(embedding, 0.99, "yes" if index == 40 else "")
    room.save()
    before, taken = heard_from()
    assert (taken, room.follow()) == (1, False)
    denied = [(time.time(), "yes")]
    add_wrong_detections(device.state.database, denied)
    assert room.follow()
    assert not room.follow()
    assert heard_from()[1] == 0
    assert heard_from()[0] >= before
    assert room.status(1.0)["labels"]["yes"] == {"detections": 1, "wrong": 1}
    remove_wrong_detections(device.state.database, denied)
    assert room.follow()
    assert heard_from() == (before, 1)


def test_switched_off_it_keeps_nothing_and_removes_what_there_is(device, model):
    RoomMemory.open(device.config, device.state, model.manifest).save()
    assert device.state.room_path.exists()
    off = dataclasses.replace(device.config, learning=LearningConfig(room=False))
    assert RoomMemory.open(off, device.state, model.manifest) is None
    assert not device.state.room_path.exists()


def test_the_status_says_what_was_promised_and_what_came():
    heard = {(DAY, 7): 3600.0 * 20, (DAY - 3, 8): 3600.0 * 40, (DAY - 9, 8): 3600.0 * 100}
    detections = {(DAY, "yes"): 50, (DAY - 3, "yes"): 4, (DAY - 9, "yes"): 70, (DAY, "no"): 2}
    now = time.mktime((*time.gmtime((DAY + 0.5) * 86_400)[:8], -1))  # noon of that day, wherever this runs
    denied = [(now - 60 * index, "yes") for index in range(42)] + [(now - 9 * 86_400, "no"), (now, "gone")]
    found = observed_rates(heard, detections, 1.0, denied, now)
    assert found["labels"] == {"yes": {"detections": 54, "wrong": 42}, "no": {"detections": 2, "wrong": 0}}
    assert rate_lines(found) == [
        "room      each sound may give 1 false alarm an hour; this device listened for 60 hours in the last 7 days",
        "          no: heard 2 times; you called none of them wrong",
        "          yes: heard 54 times; you called 42 of them wrong, 0.7 an hour",
    ]
