"""What a microphone's constant offset adds to sound is gone before anything hears it, and the sound stays."""

import numpy as np
import pytest
import soundfile

from edge_client.audio.level import OffsetFilter, rms_dbfs
from tests.support.edge_process import wait_for
from tests.support.sounds import melody
from tests.support.taught_device import PlayingDaemon

RATE_HZ = 16_000


def blocks_of(samples, size=800):
    return [samples[at : at + size] for at in range(0, len(samples), size)]


@pytest.mark.parametrize("offset", [0.0, 0.05, -0.25, 0.5])
def test_a_sound_is_heard_as_loud_as_without_the_offset_from_the_first_block_on(offset):
    rng = np.random.default_rng(1)
    room = (1e-3 * rng.standard_normal(3 * RATE_HZ)).astype(np.float32)
    tone = (0.3 * np.sin(2 * np.pi * 100 * np.arange(RATE_HZ) / RATE_HZ)).astype(np.float32)
    sound = np.concatenate([room, tone, room])
    remove = OffsetFilter(RATE_HZ)
    heard = np.concatenate([remove.push(block) for block in blocks_of(sound + np.float32(offset))])
    assert rms_dbfs(heard[:RATE_HZ]) == pytest.approx(rms_dbfs(room[:RATE_HZ]), abs=0.2)
    assert np.abs(heard - sound).max() < 0.01
    assert np.abs(np.diff(heard - sound)).max() < 1e-4  # no step between blocks


def test_an_offset_that_changes_is_followed_within_seconds():
    remove = OffsetFilter(RATE_HZ)
    remove.push(np.zeros(RATE_HZ, np.float32))
    heard = [remove.push(block) for block in blocks_of(np.full(6 * RATE_HZ, 0.2, np.float32))]
    assert np.abs(heard[-1]).max() < 0.001
    assert not len(remove.push(np.zeros(0, np.float32)))


@pytest.mark.slow
def test_a_device_hears_and_measures_through_an_offset_what_it_does_without(tmp_path):
    device = PlayingDaemon(tmp_path / "shelf", "teach_epochs = 8\n")
    device.teach({"bell": "yes", "dog": "stop"}, 8)
    (device.folder / "recordings").mkdir()
    rng = np.random.default_rng(4)
    sounds = [np.concatenate([0.001 * rng.standard_normal(RATE_HZ), melody("yes", rng)]) for _ in range(4)]
    soundfile.write(device.folder / "recordings" / "live.wav", np.concatenate(sounds) + 0.25, RATE_HZ)

    def heard():
        return [event["level_db"] for event in device.events() if event["label"] == "bell"]

    with device.start():
        wait_for(lambda: len(heard()) >= 4, what="four bells")
        assert device.end() == 0
    assert max(heard()) < -14  # the offset alone has -12 dB
