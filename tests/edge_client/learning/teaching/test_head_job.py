"""On a pretrained front end a device learns what it is taught together with what is no label."""

import dataclasses
import shutil

import numpy as np
import pytest

from edge_client.commands.status import expected_lines
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.job import NO_CLIPS
from edge_client.learning.teaching.negatives import artificial_noise
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.saved_model import Progress
from fleet_protocol.labels import LabelMap
from tests.support.sounds import melody, write_clips
from tests.support.taught_device import Device, recall

pytestmark = pytest.mark.slow


@pytest.fixture
def device(tmp_path, pretrained_bundle):
    return Device(tmp_path, pretrained_bundle)


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
    told = expected_lines(device.state.expectations())
    assert [line.split(":")[0] for line in told if line[0] != " "] == [
        f"{label!r}, 8 takes" for label in ("down", "stop", "up")
    ]


def test_a_single_sound_is_heard_because_it_is_told_from_what_is_no_label(device):
    write_clips(device.clips, "stop", 8, seed=1)
    device.teach()
    loaded = load_listening(device.config)
    config = dataclasses.replace(device.config.detector, hop_s=0.1)
    detector = Detector(loaded.model, loaded.label_map, config, tails=loaded.tails)
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
    write_clips(tmp_path / "else", "no", 8, seed=2)  # nobody taught it
    taken = recall_as(device.teach(), "no", "stop")
    (device.clips / "_not_").mkdir()
    shutil.copytree(tmp_path / "else" / "no", device.clips / "_not_" / "stop")
    assert device.to_teach() is not None
    saved = device.teach()
    assert saved.progress.label_map.names == ("stop",)
    assert recall_as(saved, "no", "stop") < min(0.2, taken + 0.1)
    assert recall(tmp_path, saved, "stop") > 0.8


def recall_as(saved, sound, label):
    """Share of clips of a sound that are taken for a label."""
    model, labels = ModelRuntime(saved.listening_bundle), saved.progress.listening_labels
    clips = np.stack([melody(sound, np.random.default_rng([9, seed])) for seed in range(20)]).astype(np.float32)
    x = model.normalise(open_front_end(saved.bundle.manifest.feature_settings)(clips))
    return (model.predict(x, labels.listening_mask).argmax(axis=1) == labels.slot_of(label)).mean()


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
    assert load_listening(device.config)[1].background == ()  # until then they are not listened to
    assert device.to_teach() == NO_CLIPS
    saved = device.teach()
    assert device.to_teach() is None
    assert len(load_listening(device.config)[1].background) == len(statistics.words) + 2
    model, labels = ModelRuntime(saved.listening_bundle), saved.progress.listening_labels
    for slot, word in enumerate(("yes", "no")):
        rows = statistics.samples[statistics.words.index(word)]
        found = model.predict(model.normalise(rows[:, None]), labels.listening_mask).argmax(axis=1)
        assert (found == slot).mean() > 0.6


def test_a_device_without_clips_and_without_labels_has_nothing_to_learn(device):
    assert device.to_teach() is None
    with device.worker() as child:
        errors = child.stderr.read().decode()
        assert child.wait(180) == 1
    assert "no readable clips" in errors
