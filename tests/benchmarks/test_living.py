"""Rooms that devices live in: nothing is shared that should not be, and embeddings are those of the detector."""

import numpy as np
import pytest

from benchmarks.listening.material import load_material, reverberated
from benchmarks.living.homes import HOMES
from benchmarks.living.rooms import Part, embedded, open_rooms
from benchmarks.living.weeks import Life, measure
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import load_listening
from edge_client.features.front_end import open_sliding
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.checkout import DATA
from tests.support.sounds import write_clips
from tests.support.taught_device import Device


@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_no_two_rooms_share_a_background_or_an_everyday_sound():
    rooms = open_rooms(load_material(DATA, 0).report, 5, 0, HOMES["busy"])
    for one in rooms:
        assert one.words
        assert one.sounds
        for other in rooms[: one.number]:
            assert set(one.sounds).isdisjoint(other.sounds)
            assert not any(a is b for a in one.half.backgrounds for b in other.half.backgrounds)


@pytest.mark.parametrize("front_end", ["base", "sounds", "sounds_2s", "words_and_sounds"])
def test_a_stream_s_embeddings_are_those_of_its_windows_one_after_the_other(front_end):
    settings = read_bundle(find_bundle(front_end)).manifest.feature_settings
    samples = np.random.default_rng(0).normal(scale=0.02, size=16_000 * 70).astype(np.float32)
    part = embedded(samples, [], "night", settings, 0.25)
    sliding, clip = open_sliding(settings, 25), settings.clip_samples
    rows = [sliding(samples[end - clip : end])[0] for end in range(clip, len(samples) + 1, 4_000)]
    np.testing.assert_allclose(part.embeddings, np.array(rows), rtol=1e-3, atol=5e-3)
    assert part.levels_db[0] == pytest.approx(20 * np.log10(0.02), abs=0.3)


def test_reverberation_is_the_convolution_however_long_the_sound_is():
    rng = np.random.default_rng(0)
    samples, response = rng.normal(size=5_000).astype(np.float32), rng.normal(size=300).astype(np.float32)
    expected = np.convolve(samples, response)[:5_000]
    np.testing.assert_allclose(reverberated(samples, response, 1024), expected, atol=1e-3)


def test_a_device_takes_up_its_room_day_by_day(tmp_path):
    device = Device(tmp_path, find_bundle("base"))
    for label in ("yes", "no"):
        write_clips(device.clips, label, 6, seed=3)
    device.teach()
    before = load_listening(device.config)
    rows = np.random.default_rng(1).normal(size=(7_200, 64)).astype(np.float16)
    part = Part("noon", 12, rows, np.full(len(rows), -30.0, np.float32), 0.25, 1.0, (), len(rows) / 4 + 1)
    life = Life(device.config)
    for day in range(5):
        life.hear(day, [part])
    heard = life.now.tails["yes"]
    assert heard.hours == pytest.approx(2.4, rel=0.1)
    assert heard.threshold(1.0) != pytest.approx(before.tails["yes"].threshold(1.0), abs=1e-4)
    found = measure(life.now, [part], {}, DetectorConfig())
    assert found.hours == pytest.approx(0.5)
    assert {0.5, 1.0, 2.0} < found.accepts.keys()
