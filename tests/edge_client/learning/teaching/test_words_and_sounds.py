"""A device that is taught words and an everyday sound."""

import shutil

import numpy as np
import pytest

from demo.corpus import synthesise
from edge_client.audio.recordings import encode_wave, read_recording
from edge_client.daemon.listening_loop import load_listening
from edge_client.detection.detector import Detector
from edge_client.learning.teaching.heard import Embedder
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.ground.sample_sounds import takes
from tests.support.edge_commands import EdgeCommands
from tests.support.taught_device import Device


def test_a_take_is_heard_as_words_hears_it_and_as_sounds_2s_does(tmp_path):
    """Other front ends' devices hear the same: of a long recording the loudest second, and the loudest two."""
    sound = np.random.default_rng(1).normal(scale=0.02, size=64_000).astype(np.float32)
    sound[20_000:30_000] *= 10
    sound[45_000:] *= 4
    heard = {}
    for name in ("words", "sounds_2s", "words_and_sounds"):
        (tmp_path / name).mkdir()
        device = Device(tmp_path / name, find_bundle(name))
        for label, rows in (("click", sound), ("short", sound[20_000:31_000])):
            (device.clips / label).mkdir(parents=True)
            (device.clips / label / "0.wav").write_bytes(encode_wave(rows, 16_000))
        settings = read_bundle(device.bundle).manifest.feature_settings
        heard[name] = Embedder(device.config, settings, device.state.embeddings_path).embeddings()
    words, sounds, both = heard.values()
    for label in ("click", "short"):
        assert both.takes[label].shape == (1, 8, 408)
        np.testing.assert_array_equal(both.takes[label][:, 0, :312], words.takes[label][:, 0])
        np.testing.assert_array_equal(both.takes[label][:, 0, 312:], sounds.takes[label][:, 0])
    assert [len(part) for part in (both.nothing, both.spliced)] == [len(words.nothing), len(words.spliced)]
    assert both.parts.keys() == words.parts.keys() == {"click", "short"}
    assert not both.parts["click"][..., 312:].any()
    assert np.abs(both.parts["click"][..., :312]).max() > 0.5


@pytest.mark.slow
def test_a_device_hears_words_and_a_sound_and_knows_which_is_which(tmp_path, capsys):
    device = Device(tmp_path, find_bundle("words_and_sounds"), detector="false_accepts_per_hour = 20")
    rng = np.random.default_rng(5)
    synthesise(tmp_path / "words", ["computer", "water"], 1, 6, seed=0)
    later = {}
    for word in ("computer", "water"):
        *taught, heard = sorted((tmp_path / "words" / word).iterdir())
        later[word] = read_recording(heard, 16_000)
        (device.clips / word).mkdir(parents=True)
        for path in taught:
            shutil.copy(path, device.clips / word)
    (device.clips / "doorbell").mkdir()
    *taught, later["doorbell"] = takes("doorbell", 6, 16_000, rng)
    for number, take in enumerate(taught):
        (device.clips / "doorbell" / f"{number}.wav").write_bytes(encode_wave(take, 16_000))
    device.teach()

    kinds = {one["label"]: one["kind"] for one in device.state.advice()}
    assert kinds == {"doorbell": "sound", "computer": "word", "water": "word"}
    loaded = load_listening(device.config)
    assert loaded.lasting == {"doorbell"}
    detector = Detector(loaded, device.config.detector)
    stream = rng.normal(scale=1e-3, size=16_000 * 40).astype(np.float32)
    for at_s, label in ((8, "doorbell"), (18, "computer"), (28, "water")):
        stream[16_000 * at_s : 16_000 * at_s + len(later[label])] += later[label]
    events = [heard.event.label for part in np.split(stream, 80) for heard in detector.push(part)]
    assert [label for label in events if label != "unknown"] == ["doorbell", "computer", "water"]

    assert "'doorbell', an everyday sound, 5 takes" in EdgeCommands(tmp_path, capsys)("clips")
