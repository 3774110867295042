"""A head that learned with the fleet is averaged with one that learned from the device's own takes alone."""

import dataclasses
import shutil

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from edge_client.commands.daemon import advice_lines
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.detection.scores import Scorer
from edge_client.detection.thresholds import Tail
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.heard import Embeddings, artificial_noise
from edge_client.learning.teaching.job import NO_CLIPS
from edge_client.learning.teaching.material import material_of
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.saved_model import Progress
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.sounds import RATE, melody, write_clips
from tests.support.taught_device import Device, recall, recall_as

NOTHING = np.zeros((0, 64), np.float32)


def fitted():
    """Weights of two sounds, of which the device has takes of the first, and the fleet a prototype of the second.

    Returns:
        By what was trained on - all, all without the own takes apart, own takes alone - the weights; and the material.
    """
    bundle = read_bundle(find_bundle("base"))
    manifest, statistics = bundle.manifest, bundle.manifest.embedding_statistics
    model = ModelRuntime(bundle)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("mine", "c0").add("theirs", "c1")
    takes = statistics.draw(statistics.means[3], 5, np.random.default_rng(0))[:, None]
    heard = Embeddings({"mine": takes}, NOTHING, NOTHING)
    found = material_of(labels, [0, 1], heard, manifest, FleetSounds(centres={"c1": statistics.means[[9]]}))
    parts = {"all": found, "together": dataclasses.replace(found, own=None), "own": found.own}
    weights = {what: train_head(model, bundle.weights, part, 3, 0.05, 1) for what, part in parts.items()}
    return weights, found


def test_outputs_of_which_the_device_has_takes_are_averaged_and_the_others_are_the_fleet_s():
    weights, found = fitted()
    assert 0 in found.slots & found.own.slots
    assert 1 in found.slots - found.own.slots
    for name, averaged in weights["all"].items():
        together, own = weights["together"][name], weights["own"][name]
        np.testing.assert_allclose(averaged[..., 0], 0.8 * together[..., 0] + 0.2 * own[..., 0], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(averaged[..., 1], together[..., 1])
        assert not np.allclose(together[..., 0], own[..., 0])


pytestmark = pytest.mark.slow


def labels_best(saved, embeddings):
    """Return the best score that any label gets, for each embedding."""
    model, labels = ModelRuntime(saved.listening_bundle), saved.progress.listening_labels
    scores = model.predict(model.normalise(embeddings[:, None]), labels.listening_mask)
    return scores[:, : len(labels.slots)].max(axis=1)


def test_sounds_are_told_from_one_another_from_noise_and_from_other_words(tmp_path, device):
    for label in ("up", "down", "stop"):
        write_clips(device.clips, label, 8, seed=1)
    saved = device.teach()
    assert saved.progress.background_trained
    assert min(recall(tmp_path, saved, label) for label in ("up", "down", "stop")) > 0.8
    assert all(np.array_equal(saved.listening[name], saved.bundle.weights[name]) for name in saved.listening)
    settings, statistics = saved.bundle.manifest.feature_settings, saved.bundle.manifest.embedding_statistics
    noise = open_front_end(settings)(artificial_noise(50, settings, np.random.default_rng(7)))[:, 0]
    assert (labels_best(saved, noise) > 0.5).mean() < 0.1
    assert (labels_best(saved, statistics.samples.reshape(-1, settings.shape[1])) > 0.5).mean() < 0.1
    assert device.to_teach() is None
    told = advice_lines(device.state.advice())
    assert [line for line in told if line[0] != " "] == [f"{label!r}, 8 takes" for label in ("down", "stop", "up")]


def phrase(parts, rng):
    """Two gliding tones of .35 s each, from a frequency to another one, or nothing: float32 [16000]."""
    clip = rng.normal(scale=0.01, size=RATE)
    at, size = int(rng.integers(1_600, 3_200)), round(0.35 * RATE)
    for number, part in enumerate(parts):
        if part is not None:
            glide = np.cumsum(np.linspace(*part, size) * rng.uniform(0.95, 1.05))
            tone = np.sin(2 * np.pi * glide / RATE) * np.sqrt(np.hanning(size))
            clip[at + number * size :][:size] += rng.uniform(0.3, 0.5) * tone
    return clip.astype(np.float32)


def test_a_part_of_a_phrase_its_repetition_and_the_other_order_are_not_the_phrase(tmp_path):
    device = Device(tmp_path, find_bundle("words"))
    rng, first, second = np.random.default_rng(0), (400, 900), (2500, 700)
    (device.clips / "phrase").mkdir(parents=True)
    for number in range(5):
        wave = encode_wave(phrase((first, second), rng), RATE)
        (device.clips / "phrase" / f"{number:08x}_nohash_0.wav").write_bytes(wave)
    saved = device.teach()
    model, labels = ModelRuntime(saved.listening_bundle), saved.progress.listening_labels
    front_end, near = open_front_end(model.manifest.feature_settings), saved.progress.for_listening.prototypes["phrase"]
    tail = saved.progress.for_listening.tails["phrase"]
    level, scale = model.manifest.embedding_statistics.unheard  # the device's own words promise too much
    assert tail == (level - 2.0, scale)  # of a long word its order counts
    threshold = Tail(*tail).threshold(1.0)

    def heard(parts, prototype):
        features = front_end(np.stack([phrase(parts, np.random.default_rng(take)) for take in range(8)]))
        return (Scorer(model, labels, {"phrase": prototype})(features)[:, 0] >= threshold).mean()

    others = ((first, None), (first, first), (None, second), (second, first))
    assert heard((first, second), near) == 1
    assert [heard(parts, near) for parts in others] == [0, 0, 0, 0]
    assert (
        min(heard(parts, near._replace(rows=near.rows[:1])) for parts in others) > 0.5
    )  # as they were without prototypes of parts


def test_a_single_sound_is_heard_because_it_is_told_from_what_is_no_label(device):
    write_clips(device.clips, "stop", 8, seed=1)
    device.teach()
    loaded = load_listening(device.config)
    config = dataclasses.replace(device.config.detector, hop_s=0.1)
    detector = Detector(loaded, config)
    stream, rng = np.zeros(16_000 * 6, np.float32), np.random.default_rng(5)
    stream += rng.normal(scale=0.003, size=len(stream)).astype(np.float32)
    stream[32_000:48_000] += melody("stop", rng)
    assert [heard.event.label for heard in detector.push(stream)].count("stop") == 1


def test_the_same_clips_give_the_same_head_whatever_was_taught_before(device):
    for label in ("up", "down"):
        write_clips(device.clips, label, 6, seed=1)
    first = device.teach()
    write_clips(device.clips, "stop", 6, seed=1)
    device.teach()
    shutil.rmtree(device.clips / "stop")
    again = device.teach()
    assert again.progress.label_map.names == ("down", "up", "stop")  # its slot is never another sound's
    model, labels = ModelRuntime(again.listening_bundle), again.progress.listening_labels
    stop = np.stack([melody("stop", np.random.default_rng(seed)) for seed in range(8)]).astype(np.float32)
    x = model.normalise(open_front_end(again.bundle.manifest.feature_settings)(stop))
    assert (model.predict(x, labels.listening_mask).argmax(axis=1) != labels.slot_of("stop")).all()
    shared = [slot for slot in range(32) if slot != labels.slot_of("stop")]
    kernels = [saved.listening["head/kernel"][:, shared] for saved in (first, again)]
    assert np.abs(kernels[0] - kernels[1]).max() < 0.1 * np.abs(kernels[0]).max()


def test_what_the_owner_says_is_not_a_label_is_no_longer_taken_for_it(tmp_path, device):
    write_clips(device.clips, "stop", 8, seed=1)
    taken = recall_as(device.teach(), "no", "stop")  # nobody taught it
    write_clips(device.clips, "no", 8, seed=2, name="_not_/stop")
    assert device.to_teach() is not None
    saved = device.teach()
    assert saved.progress.label_map.names == ("stop",)
    assert recall_as(saved, "no", "stop") < min(0.2, taken + 0.1)
    assert recall(tmp_path, saved, "stop") > 0.8


def adopted(device):
    """Make the device one that got three words from the fleet in a round, and has no clip of any sound."""
    saved = device.state.model.load(device.bundle)
    manifest = saved.bundle.manifest
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).adopt(
        (word, word) for word in ("yes", "no")
    )
    progress = Progress(architecture="linear", label_map=labels, learned=1)
    device.state.model.save(saved.bundle.weights, saved.listening, progress)
    return manifest.embedding_statistics


def test_after_a_round_a_device_without_clips_learns_what_is_no_label(device):
    statistics = adopted(device)
    assert load_listening(device.config).label_map.background == ()  # until then they are not listened to
    assert device.to_teach() == NO_CLIPS
    saved = device.teach()
    assert device.to_teach() is None
    assert len(load_listening(device.config).label_map.background) == len(statistics.words) + 2
    model, labels = ModelRuntime(saved.listening_bundle), saved.progress.listening_labels
    for slot, word in enumerate(("yes", "no")):
        rows = statistics.samples[statistics.words.index(word)]
        found = model.predict(model.normalise(rows[:, None]), labels.listening_mask).argmax(axis=1)
        assert (found == slot).mean() > 0.6
