"""The household that taught sounds are heard in: what counts as missed and as false, and how recordings are dealt."""

import numpy as np
import pytest
import soundfile

from benchmarks.command import BenchmarkError
from benchmarks.listening.household import Household, Sound, counts, deal, make_stream, once_an_hour
from benchmarks.listening.material import impulse_response
from benchmarks.listening.measurement import Heard, Listened
from edge_client.config.sections import DetectorConfig
from tests.support.checkout import DATA


def test_misses_and_false_accepts_by_hand():
    sounds = [Sound("bell", 10.0, 12.0), Sound(None, 20.0, 25.0), Sound("dog", 30.0, 31.0), Sound("bell", 40.0, 44.0)]
    heard = [
        Heard(5.0, "bell"),  # nothing sounds
        Heard(13.5, "bell"),  # right, a little late
        Heard(13.9, "bell"),  # the same once more
        Heard(21.0, "dog"),  # another sound
        Heard(31.5, "bell"),  # a dog is no bell
        Heard(46.5, "bell"),  # too late
    ]
    played, missed, false = counts(sounds, heard)
    assert played == {"bell": 2, "dog": 1}
    assert missed == {"bell": 1, "dog": 1}
    assert false == 5


@pytest.mark.skipif(not (DATA / "gsc_background_noise").is_dir(), reason=f"there are no recordings in {DATA}")
def test_takes_and_what_is_played_later_are_of_different_sources(tmp_path):
    for label, sources in (("bell", 7), ("dog", 8), ("rain", 1)):
        (tmp_path / label).mkdir()
        for source in range(sources):
            for take in range(2):
                soundfile.write(tmp_path / label / f"{source}_{take}.wav", np.zeros(1600), 16_000)
    household = deal(tmp_path, ["bell", "dog"], 5, np.random.default_rng(0))
    for label, later in (("bell", 2), ("dog", 3)):
        taught = {path.name.split("_")[0] for path in household.taught[label]}
        assert len(taught) == len(household.taught[label]) == 5
        assert len(household.later[label]) == 2 * later
        assert taught.isdisjoint(path.name.split("_")[0] for path in household.later[label])
    assert [path.parent.name for path in household.others] == ["rain", "rain"]
    with pytest.raises(BenchmarkError, match="has 7 sources; 7 teach"):
        deal(tmp_path, ["bell"], 7, np.random.default_rng(0))


def test_a_recording_without_a_sound_leaves_the_stream_as_it_is(tmp_path):
    soundfile.write(tmp_path / "0_0.wav", np.zeros(16_000), 16_000)
    silent, noise = [tmp_path / "0_0.wav"], np.random.default_rng(0).normal(size=32_000).astype(np.float32)
    stream, sounds = make_stream(Household({"bell": silent}, {"bell": silent}, silent, (noise,)), 10.0, 0.02, 0)
    assert sounds
    assert np.isfinite(stream).all()


def test_each_label_gets_the_lowest_threshold_that_allows_it_one_false_accept_an_hour():
    sounds = [Sound("bell", 10.0, 12.0), Sound("dog", 30.0, 31.0)]
    at_s, scores = np.arange(0.0, 3600.0), np.zeros((3600, 2), np.float32)
    for second, slot, score in (
        (11, 0, 0.9),  # the bell
        (100, 0, 0.8),  # taken for a bell
        (200, 0, 0.6),
        (31, 1, 0.7),  # the dog
        (300, 1, 0.95),  # taken for a dog
    ):
        scores[second, slot] = score
    found = Listened(("bell", "dog"), (), scores, at_s, DetectorConfig(refractory_s=1.0), 3600.0)
    bell, dog = once_an_hour(found, sounds)
    assert 0.6 < bell <= 0.8
    assert dog < 0.3
    heard = {(one.at_s, one.label) for one in found.at(np.array([bell, dog], np.float32))}
    assert heard == {(11.0, "bell"), (100.0, "bell"), (31.0, "dog"), (300.0, "dog")}


def test_a_room_answers_at_most_as_loudly_as_the_sound_itself():
    for seed in range(20):
        room = impulse_response(np.random.default_rng(seed))
        direct, answer = room[0] ** 2, np.square(room[1:]).sum()
        assert 0.3 < direct / answer < 12
        assert np.square(room[len(room) // 2 :]).sum() < 0.2 * answer
