"""The household that taught sounds are heard in: what counts as missed and as false, and how recordings are dealt."""

import numpy as np
import pytest
import soundfile

from benchmarks.command import BenchmarkError
from benchmarks.listening.household import Sound, counts, deal
from benchmarks.listening.measurement import Heard
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
