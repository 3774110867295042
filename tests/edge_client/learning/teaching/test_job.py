"""When a device learns what its owner taught, and what it says where it cannot."""

import dataclasses

import pytest

from edge_client.clips.store import ClipStore
from edge_client.learning.teaching.job import go_over, to_teach
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.sounds import write_clips
from tests.support.taught_device import Device


def test_nothing_is_taught_without_a_microphone_or_while_clips_are_changing(device):
    assert device.to_teach() is None
    with ClipStore(device.clips, device.config.clips, 16_000).changing():
        write_clips(device.clips, "stop", 1, seed=1)
        assert device.to_teach() is None
    assert device.to_teach() is not None
    assert to_teach(dataclasses.replace(device.config, microphone=None), device.state) is None


def test_what_has_no_words_of_a_pretraining_learns_in_rounds_alone(tmp_path):
    device = Device(tmp_path, find_bundle("cnn2"))
    write_clips(device.clips, "stop", 1, seed=1)
    assert device.to_teach() is None
    assert go_over(device.config, device.state, device.state.model.load(device.bundle)) is None


def test_what_would_help_is_known_before_a_model_says_that_its_clips_are_learned(device):
    write_clips(device.clips, "stop", 2, seed=1)
    made = go_over(device.config, device.state, device.state.model.load(device.bundle))
    device.state.model.path.mkdir()  # nothing can be written there
    with pytest.raises(OSError, match=r"model\.safetensors"):
        made.save(device.state)
    assert device.state.model.taught() == ""
    assert [found["label"] for found in device.state.advice()] == ["stop"]


@pytest.mark.slow
def test_a_lesson_without_readable_clips_says_so(device):
    (device.clips / "stop").mkdir(parents=True)
    (device.clips / "stop" / "a.wav").write_bytes(b"no sound")
    with device.worker() as child:
        errors = child.stderr.read().decode()
        assert child.wait(180) == 1
    assert "no readable clips" in errors
    assert "Traceback" not in errors
    assert not (device.state.folder / "model.safetensors").exists()
