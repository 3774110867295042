"""A running device's counts of its room: saved, taken up by thresholds, and gone when its owner wants that."""

import dataclasses
import time

import numpy as np
import pytest

from edge_client.config.sections import DetectorConfig, LearningConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.observed_rates import ObservedRates, forget_rates, rate_lines, tails_here
from edge_client.detection.thresholds import Tail
from edge_client.model.runtime import ModelRuntime
from edge_client.owner import Teaching
from edge_client.owner_changes import purge
from edge_client.storage.owner_choices import add_wrong_detections, read_wrong_detections, remove_wrong_detections
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.sounds import write_clips

NOW = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))  # noon, wherever this runs
DAY_S = 86_400.0
TAILS = {"yes": Tail(3.0, 0.7), "no": Tail(9.0, 0.7)}


@pytest.fixture(scope="module")
def model():
    return ModelRuntime(read_bundle(find_bundle("base")), 1)


def opened(device, model):
    return ObservedRates.open(device.config, device.state.database, model.manifest)


def of(device, clock=lambda: NOW, features="front end"):
    return ObservedRates(device.state.database, features, clock)


def loaded(model, **changes):
    labels = LabelMap(model.manifest.capacity, reserved=len(model.manifest.background)).add("yes").add("no")
    return Loaded(model, labels, TAILS, **changes)


def hear(rates, model, seconds, detected=()):
    """Let sound pass of which label ``yes`` is taken once in two seconds to be what it is."""
    blocks = rates.listener(loaded(model))
    names = loaded(model).label_map.names
    scores = np.where(np.array(names) == "yes", 0.9, 0.0).astype(np.float32)
    for index in range(round(seconds / 2)):
        blocks.look(2.0, scores, detected[index] if index < len(detected) else "", "")


def test_what_was_heard_survives_a_restart_and_moves_the_thresholds(device, model):
    rates = opened(device, model)
    detector = Detector(loaded(model, look=rates.listener(loaded(model)).look), DetectorConfig())
    noise = np.random.default_rng(0).normal(scale=0.02, size=16_000 * 3600).astype(np.float32)
    detector.push(noise[: 16_000 * 101])
    detector.push(np.zeros(16_000 * 100, np.float32))
    found = rates.status(1.0)
    assert found["hours"] == pytest.approx(100 / 3600, abs=0.01)
    rates.save()
    assert opened(device, model).status(1.0) == found
    features = model.manifest.feature_settings.digest
    here = tails_here(device.state.database, features, TAILS)
    assert here["yes"].hours == pytest.approx(100 / 3600, rel=0.05)
    assert here["yes"].threshold(1.0) != pytest.approx(TAILS["yes"].threshold(1.0), abs=1e-4)
    assert tails_here(device.state.database, "another front end", TAILS) == TAILS


def test_a_label_that_the_room_is_taken_for_gets_a_higher_threshold_and_one_that_it_is_not_a_lower(device, model):
    rates = opened(device, model)
    hear(rates, model, 3600.0)
    rates.save()
    here = tails_here(device.state.database, model.manifest.feature_settings.digest, TAILS)
    assert here["yes"].threshold(1.0) > TAILS["yes"].threshold(1.0)
    assert here["no"].threshold(1.0) < TAILS["no"].threshold(1.0)


def test_the_status_says_what_was_promised_and_what_came(device, model):
    today = [NOW]
    rates = of(device, lambda: today[0])
    for days, hours, heard in ((-9, 2, ["yes"] * 70), (-3, 1, ["yes"] * 4), (0, 1, ["yes"] * 50 + ["no"] * 2)):
        today[0] = NOW + days * DAY_S
        hear(rates, model, 3600.0 * hours, heard)
    denied = [(NOW - 60 * index, "yes") for index in range(42)] + [(NOW - 9 * DAY_S, "no"), (NOW, "gone")]
    add_wrong_detections(device.state.database, denied)
    assert rates.follow()
    found = rates.status(1.0)
    assert found["labels"] == {"yes": {"detections": 54, "wrong": 42}, "no": {"detections": 2, "wrong": 0}}
    assert rate_lines(found) == [
        "room      each sound may give 1 false alarm an hour; this device listened for 2 hours in the last 7 days",
        "          no: heard 2 times; you called none of them wrong",
        "          yes: heard 54 times; you called 42 of them wrong, 21.0 an hour",
    ]


def test_what_a_clock_that_was_ahead_counted_goes_once_it_is_right(device, model):
    clock = [NOW + 400 * DAY_S]
    rates = of(device, lambda: clock[0])
    hear(rates, model, 7200.0, ["yes"])
    rates.save()
    clock[0] = NOW
    hear(rates, model, 3600.0)
    assert rates.status(1.0) == {"promised_per_hour": 1.0, "hours": 1.0, "days": 7, "labels": {}}


def test_thresholds_follow_at_once_when_the_owner_says_that_detections_were_wrong(device, model):
    for label in ("yes", "no"):
        write_clips(device.clips, label, 6, seed=3)
    device.teach()
    now = load_listening(device.config)
    rates = opened(device, model)
    blocks, names = rates.listener(now), now.label_map.names
    scores = np.where(np.array(names) == "yes", 1.0, 0.0).astype(np.float32)
    for index in range(1800):  # an hour, in which it was detected four times
        blocks.look(2.0, scores if index < 4 else np.zeros_like(scores), "yes" if index < 4 else "", "")
    rates.save()

    def threshold():
        return load_listening(device.config).tails["yes"].threshold(1.0)

    before, denied = threshold(), [(time.time(), "yes")]
    assert not rates.follow()
    add_wrong_detections(device.state.database, denied)
    assert rates.follow()
    assert not rates.follow()
    assert threshold() > before
    assert rates.status(1.0)["labels"]["yes"] == {"detections": 4, "wrong": 1}
    remove_wrong_detections(device.state.database, denied)
    assert rates.follow()
    assert threshold() == before


def test_a_label_that_is_gone_is_forgotten_and_one_without_a_tail_for_a_while_is_not(device, model):
    rates = opened(device, model)
    hear(rates, model, 60.0)
    without = loaded(model)
    rates.listener(dataclasses.replace(without, tails={}))
    rates.save()
    database, features = device.state.database, model.manifest.feature_settings.digest
    assert tails_here(database, features, TAILS)["no"] != TAILS["no"]
    rates.listener(dataclasses.replace(without, tails={"yes": TAILS["yes"]}))
    rates.save()
    assert tails_here(database, features, TAILS)["no"] == TAILS["no"]


def test_purging_the_clips_makes_a_running_device_forget_its_room(device, model):
    rates = opened(device, model)
    hear(rates, model, 3600.0, ["yes"])
    rates.save()
    add_wrong_detections(device.state.database, [(time.time(), "yes")])
    assert rates.follow()
    purge(Teaching.open(device.folder / "edge.toml"))
    assert read_wrong_detections(device.state.database) == []
    rates.save()
    assert opened(device, model).status(1.0)["hours"] == 0  # nothing of before comes back
    assert rates.follow()
    assert rates.status(1.0)["labels"] == {}
    hear(rates, model, 7200.0)
    rates.save()
    assert opened(device, model).status(1.0)["hours"] == 2.0


def test_switched_off_it_counts_nothing_and_removes_what_there_is(device, model):
    rates = opened(device, model)
    hear(rates, model, 3600.0, ["yes"])
    rates.save()
    off = dataclasses.replace(device.config, learning=LearningConfig(room=False))
    assert ObservedRates.open(off, device.state.database, model.manifest) is None
    assert opened(device, model).status(1.0)["hours"] == 0


def test_a_front_end_that_promises_nothing_has_no_rates(device, bundles):
    manifest = read_bundle(bundles["cnn2"]).manifest
    assert ObservedRates.open(device.config, device.state.database, manifest) is None
    forget_rates(device.state.database)
    assert not device.state.database.path.exists()  # nor a file for nothing


def test_wrong_detections_are_remembered_once_and_the_newest_alone(device):
    database = device.state.database
    assert read_wrong_detections(database) == []
    add_wrong_detections(database, [(1.0, "yes")])
    add_wrong_detections(database, [(1.0, "yes"), (2.0, "no")])
    assert read_wrong_detections(database) == [(1.0, "yes"), (2.0, "no")]
    add_wrong_detections(database, [(float(moment), "up") for moment in range(1000)])
    assert read_wrong_detections(database) == [(float(moment), "up") for moment in range(500, 1000)]


def test_counts_that_cannot_be_read_begin_anew(device, model):
    database = device.state.database
    for damaged in ({}, {"features": "front end", "heard_s": 3, "detections": [], "reached": {}}, [1, 2], "x"):
        database.set_note("observed_rates", damaged)
        rates = of(device)
        hear(rates, model, 3600.0, ["yes"])
        rates.save()
        assert of(device).status(1.0)["hours"] == 1.0
    database.path.write_bytes(b"no database" * 100)
    rates = of(device)
    hear(rates, model, 3600.0)
    rates.save()
    assert rates.status(1.0)["hours"] == 1.0
