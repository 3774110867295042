"""`benchmarks.guesses`: the share of right guesses of anybody's recordings, by a bundle that hears sounds."""

import json

import numpy as np
import pytest
import soundfile

from benchmarks.guesses import right_words
from fleet_protocol.ground import sample_sounds
from tests.support.checkout import DATA, run_module

needs_noise = pytest.mark.skipif(
    not (DATA / "gsc_background_noise").is_dir(), reason=f"there are no recordings in {DATA}"
)


def test_a_label_of_esc_50_is_right_by_the_words_of_a_home_and_three_of_them_by_none():
    assert (right_words("toilet_flush"), right_words("washing_machine")) == (("toilet flush",), ())
    assert right_words("hen") == ("chicken",)


@needs_noise
@pytest.mark.slow
def test_recordings_of_ones_own_are_measured(tmp_path):
    for fold in (1, 2, 3):
        for label, kind in (("siren", "siren"), ("crickets", "crickets")):
            (tmp_path / label).mkdir(exist_ok=True)
            take = sample_sounds.takes(kind, 1, 48_000, np.random.default_rng(fold))[0]
            soundfile.write(tmp_path / label / f"{fold}-{label}.wav", take, 16_000)
    done = run_module("benchmarks.guesses", "--data", tmp_path, "--bundles", "sounds_2s", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [(row["kinds"], row["noise"]) for row in rows] == [
        (kinds, noise) for kinds in ("ten", "all") for noise in ("none", "10 dB")
    ]
    assert rows[2]["top_3"] == 100.0
    refused = run_module("benchmarks.guesses", "--data", tmp_path, "--bundles", "base")
    assert (refused.returncode, "base hears no sounds" in refused.stderr) == (1, True)
