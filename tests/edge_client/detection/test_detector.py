"""The detector hears what its model knows, once each, and tells unknown sounds from the background."""

import dataclasses

import numpy as np
import pytest

from edge_client.audio.resampling import resample
from edge_client.config.sections import THRESHOLD, DetectorConfig
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.thresholds import Tail
from edge_client.features.augmentation import augment
from edge_client.features.mfcc import Mfcc
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from tests.support.sounds import TONES, melody

KNOWN = ("yes", "no", "up")
RATE = 14_400
CONFIG = DetectorConfig()


def clips(label, count, seed):
    rng = np.random.default_rng([seed, sorted(TONES).index(label)])
    return np.stack([resample(melody(label, rng).astype(np.float32), 16_000, RATE) for _ in range(count)])


def quiet(seconds, seed=0):
    return np.random.default_rng(seed).normal(scale=0.01, size=round(seconds * RATE)).astype(np.float32)


@pytest.fixture(scope="module")
def taught(bundles):
    """A model that was taught three melodies, and that the background fits none of them."""
    model = ModelRuntime.open(bundles["cnn2"])
    rng = np.random.default_rng(3)
    label_map = LabelMap(model.manifest.capacity)
    for name in KNOWN:
        label_map = label_map.add(name)
    samples = [augment(np.tile(clips(name, 40, 0), (2, 1)), RATE, rng) for name in KNOWN]
    background = quiet(120, 9).reshape(120, RATE)
    x = model.normalise(Mfcc(model.manifest.feature_settings)(np.concatenate([*samples, background])))
    targets = from_slots(np.repeat(np.arange(3), 80), model.manifest.capacity)
    targets = np.concatenate([targets, np.tile(label_map.mask / 3, (120, 1)).astype(np.float32)])
    for _ in range(20):
        train_epoch(model, x, targets, label_map.mask, Optimiser(0.02), rng)
    return model, label_map


def stream_of(*labels, seed=1, gap_s=2.0):
    """Background with the labels' melodies in it; a new one begins every 1 s + gap_s."""
    parts = [quiet(2.0, seed)]
    for number, label in enumerate(labels):
        parts += [clips(label, 1, seed + number + 50)[0], quiet(gap_s, seed + number)]
    return np.concatenate(parts)


def hear(detector, stream, block=1000):
    return [heard.event for heard in pushed(detector, stream, block)]


def pushed(detector, stream, block=1000):
    return [heard for start in range(0, len(stream), block) for heard in detector.push(stream[start : start + block])]


def test_each_sound_is_heard_once_and_with_the_right_name(taught):
    said = ["yes", "no", "up", "no", "yes", "up"] * 3
    found = pushed(Detector(Loaded(*taught), CONFIG), np.concatenate([quiet(60, 1), stream_of(*said)]))
    assert [(one.event.kind, one.event.label) for one in found] == [("detected", label) for label in said]
    assert all(THRESHOLD <= one.event.score <= 1 for one in found)
    assert all(one.sound.shape == (RATE,) and np.abs(one.sound).max() > 0.1 for one in found)


def test_an_everyday_sound_has_a_begin_and_an_end_and_a_word_none(taught):
    now = [0.0]
    gated = dataclasses.replace(CONFIG, energy_gate_db=-35.0)  # the background is no sound
    detector = Detector(Loaded(*taught, lasting=frozenset({"yes"})), gated, clock=lambda: now[0])
    again = np.tile(np.concatenate([clips("yes", 1, 60)[0], quiet(1.0, 3)]), 5)  # ten seconds, with pauses
    stream = np.concatenate([quiet(3.0, 1), again, quiet(6.0, 2), clips("no", 1, 61)[0], quiet(3.0, 4)])
    events, followed = [], []
    for start in range(0, len(stream), 720):
        now[0] = start / RATE
        events += [heard.event for heard in detector.push(stream[start : start + 720])]
        followed += detector.take_followed()
    events = [event for event in events if event.kind == "detected"]
    assert [event.label for event in events] == ["yes", "no"]
    begin = events[0]
    *going_on, end = followed
    assert going_on[0] == begin  # it is said again for as long as it lasts
    assert len(going_on) >= 4
    assert end == dataclasses.replace(begin, ended=end.ended)
    assert 11.0 < end.ended < 14.0  # the last of it ends at 12 s
    assert 7.5 < end.lasted_s < 11.0


def test_a_sound_goes_on_while_another_label_or_threshold_is_taken_up(taught):
    lasting = Loaded(*taught, lasting=frozenset({"yes"}))
    detector, again = Detector(lasting, CONFIG), np.tile(clips("yes", 1, 60)[0], 4)
    events = hear(detector, np.concatenate([quiet(3.0, 1), again]))
    (begin,) = events
    followed = detector.take_followed()
    more = dataclasses.replace(lasting, label_map=lasting.label_map.put(1, "doorbell", None).add("new"))
    for loaded in (more, dataclasses.replace(more, thresholds={"yes": 0.75})):
        detector.adopt(loaded)
        assert hear(detector, again) == []  # it began once
        followed += detector.take_followed()
    assert {event.ended for event in followed} == {None}
    hear(detector, quiet(6.0, 2))
    *_, end = detector.take_followed()
    assert end == dataclasses.replace(begin, ended=end.ended)


def test_a_sound_whose_label_goes_or_lasts_no_longer_is_over(taught):
    model, label_map = taught
    for loaded in (Loaded(model, label_map.put(0, "oui", None), lasting=frozenset({"oui"})), Loaded(*taught)):
        detector = Detector(Loaded(*taught, lasting=frozenset({"yes"})), CONFIG)
        hear(detector, np.concatenate([quiet(3.0, 1), clips("yes", 1, 60)[0]]))
        detector.take_followed()
        detector.adopt(loaded)
        assert [(event.label, event.ended is not None) for event in detector.take_followed()] == [("yes", True)]
        assert detector.take_followed() == []


def test_a_label_that_is_off_costs_nothing_disturbs_no_other_and_comes_back_without_teaching(taught):
    doubts = []
    loaded = Loaded(*taught, lasting=frozenset({"yes"}), doubt=doubts.append)
    detector, without = Detector(loaded, CONFIG), dataclasses.replace(loaded, off=frozenset({"yes"}))
    said, again = stream_of("yes", "up", "yes", "no"), np.tile(clips("yes", 1, 60)[0], 4)
    assert [event.label for event in hear(detector, np.concatenate([quiet(3.0, 1), again]))] == ["yes"]
    detector.take_followed()
    thresholds = {label: threshold for label, (_, threshold) in detector.standing.items()}
    detector.adopt(without)
    assert [(event.label, event.ended is not None) for event in detector.take_followed()] == [("yes", True)]
    doubts.clear()
    # Nor is it unknown what it was.
    assert [event.label for event in hear(detector, np.concatenate([again, quiet(4.0, 2), said]))] == ["up", "no"]
    assert [doubt.label for doubt in doubts if doubt.label == "yes"] == []
    standing = detector.standing
    assert standing.keys() == {"no", "up"}
    assert {label: threshold for label, (_, threshold) in standing.items()} == {
        label: thresholds[label] for label in standing
    }
    detector.adopt(loaded)
    heard = hear(detector, np.concatenate([quiet(4.0, 2), clips("yes", 1, 61)[0], quiet(2.0, 4)]))
    assert [event.label for event in heard] == ["yes"]


def test_what_comes_after_a_pause_does_not_follow_what_was_before_it(taught):
    detector, sound = Detector(Loaded(*taught), CONFIG), clips("yes", 1, 60)[0]
    half = len(sound) // 2
    hear(detector, np.concatenate([quiet(20.0, 1), sound[:half]]))  # which would be heard, were it to go on
    detector.forget()
    assert not detector.window().any()
    windows = detector.counters.windows
    assert hear(detector, quiet(0.9, 5)) == []
    assert detector.counters.windows == windows  # none is whole yet
    heard = hear(detector, np.concatenate([quiet(4.0, 2), clips("no", 1, 61)[0], quiet(2.0, 3)]))
    assert [event.label for event in heard] == ["no"]


def test_a_device_whose_labels_are_all_off_hears_none(taught):
    detector = Detector(Loaded(*taught, off=frozenset(KNOWN), doubt=lambda doubt: pytest.fail(doubt.label)), CONFIG)
    assert hear(detector, stream_of(*KNOWN)) == []
    assert detector.standing == {}


def test_a_word_that_was_just_heard_is_not_heard_again_by_the_next_model(taught):
    detector = Detector(Loaded(*taught), CONFIG)
    assert [event.label for event in hear(detector, np.concatenate([quiet(3.0, 1), clips("yes", 1, 60)[0]]))] == ["yes"]
    detector.adopt(Loaded(*taught))
    assert hear(detector, np.concatenate([np.tile(clips("yes", 1, 60)[0], 3), quiet(3.0, 4)])) == []


def test_how_the_stream_is_cut_changes_nothing(taught):
    stream = stream_of("yes", "up", "down", "no")
    events = [
        [dataclasses.replace(event, time=0.0) for event in hear(Detector(Loaded(*taught), CONFIG), stream, block)]
        for block in (1, 977, 3600, len(stream))
    ]
    assert events[0]
    assert all(other == events[0] for other in events[1:])


def test_an_unknown_sound_is_reported_once_with_the_window_that_holds_it(taught):
    detector = Detector(Loaded(*taught), CONFIG)
    rng = np.random.default_rng(0)
    bang = (0.5 * np.exp(-np.arange(RATE) / 2500) * rng.standard_normal(RATE)).astype(np.float32)
    (heard,) = pushed(detector, np.concatenate([quiet(3.05, 1), bang, quiet(5, 2)]))
    assert heard.event.kind == heard.event.label == "unknown"
    assert heard.event.score < CONFIG.unknown_threshold
    window = heard.sound
    assert np.square(window).sum() > 0.95 * np.square(bang).sum()


@pytest.mark.parametrize(("length_s", "kept_s"), [(0.5, 1.0), (1.3, 1.3), (2.9, 2.9), (3.6, 1.0)])
def test_of_an_unknown_phrase_all_is_kept_and_of_what_lasts_longer_a_clip(bundles, length_s, kept_s):
    model = ModelRuntime.open(bundles["cnn2"])
    detector = Detector(Loaded(model, LabelMap(model.manifest.capacity)), CONFIG)
    rng = np.random.default_rng(0)
    rate = detector.sample_rate_hz
    phrase = rng.uniform(-0.3, 0.3, round(length_s * rate)).astype(np.float32)
    phrase[round(0.4 * rate) : round(0.6 * rate)] *= 0.01  # a pause within it
    (heard,) = pushed(detector, np.concatenate([quiet(3.05, 1), phrase, quiet(5, 2)]))
    assert kept_s <= len(heard.sound) / rate < kept_s + 1
    of_phrase = phrase[: round(kept_s * rate) - 2 * detector.hop_samples]  # it may begin so much before
    assert np.square(heard.sound).sum() > 0.98 * np.square(of_phrase).sum()


def test_a_device_that_knows_nothing_still_notices_sounds_to_be_named(bundles):
    model = ModelRuntime.open(bundles["cnn2"])
    detector = Detector(Loaded(model, LabelMap(model.manifest.capacity)), CONFIG)
    assert [event.kind for event in hear(detector, stream_of("yes"))] == ["unknown"]


def test_a_single_label_is_never_heard_because_its_score_is_always_one(bundles, caplog):
    model = ModelRuntime.open(bundles["cnn2"])
    detector = Detector(Loaded(model, LabelMap(model.manifest.capacity).add("yes")), CONFIG)
    assert [event.kind for event in hear(detector, stream_of("yes"))] == ["unknown"]
    assert "teach a second sound" in caplog.text


def test_quiet_windows_cost_no_inference(taught):
    detector = Detector(Loaded(*taught), CONFIG)
    hear(detector, 1e-4 * quiet(10))
    assert detector.counters.windows == detector.counters.gated == 37
    assert detector.level_db == pytest.approx(-120, abs=1)
    detector = Detector(Loaded(*taught), dataclasses.replace(CONFIG, energy_gate_db=-120.0))
    hear(detector, 1e-4 * quiet(10))
    assert detector.counters.gated == 0


def test_a_tail_makes_a_label_hard_of_hearing_unless_the_owner_gives_a_threshold(taught):
    model, label_map = taught
    tails, stream = {"yes": Tail(level=12.0, scale=1.0)}, stream_of("yes", "no")

    def heard(config):
        return {event.label for event in hear(Detector(Loaded(model, label_map, tails), config), stream)}

    assert "yes" not in heard(CONFIG)
    assert "no" in heard(CONFIG)
    assert "yes" in heard(dataclasses.replace(CONFIG, threshold=0.7))
    assert "yes" in heard(dataclasses.replace(CONFIG, thresholds={"yes": 0.7}))
