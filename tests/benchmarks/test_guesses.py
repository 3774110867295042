"""`benchmarks.guesses`: the share of right guesses of anybody's recordings, by a bundle that hears sounds."""

import json

import numpy as np
import pytest
import soundfile

from benchmarks.guesses import Guessed, likelihood, right_words
from fleet_protocol.ground import sample_sounds
from tests.support.checkout import DATA, run_module

needs_noise = pytest.mark.skipif(
    not (DATA / "gsc_background_noise").is_dir(), reason=f"there are no recordings in {DATA}"
)


def test_the_likelihood_is_the_least_at_which_three_of_four_guesses_of_the_tuning_folds_are_right():
    shares = np.array([0.9, 0.8, 0.6, 0.6, 0.35, 0.3, 0.9])
    right = np.array([1, 1, 1, 0, 0, 1, 0], bool)[:, None].repeat(3, axis=1)
    tuning = np.arange(7) < 6  # the last is another fold's
    found = Guessed(np.array(["x"] * 7), tuning, np.zeros(7, bool), right, np.ones((7, 3), bool), shares)
    assert likelihood(found) == 0.4  # 3 of 4; at 0.35 it is 3 of 5
    untold = Guessed(np.array(["x"] * 7), tuning, np.zeros(7, bool), right, np.zeros((7, 3), bool), shares)
    assert likelihood(untold) is None
    assert (right_words("toilet_flush"), right_words("washing_machine")) == (("toilet flush",), ())


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
    chosen, *rows = json.loads(done.stdout.splitlines()[-1])
    assert chosen["ships"] > 0
    assert [(row["kinds"], row["noise"]) for row in rows] == [
        (kinds, noise) for kinds in ("ten", "all") for noise in ("none", "10 dB")
    ]
    assert rows[2]["top_3"] == 100.0
    refused = run_module("benchmarks.guesses", "--data", tmp_path, "--bundles", "base")
    assert (refused.returncode, "base hears no sounds" in refused.stderr) == (1, True)
