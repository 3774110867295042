"""`benchmarks.few_shot`: figures for anybody's recordings, by any front end that has a network."""

import json
from functools import partial

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from tests.support.checkout import run_module

TONES = {"luz": 350.0, "puerta": 700.0, "agua": 1_400.0}
KEYS = {"front_end", "data", "takes", "speakers", "ways", "same_speaker", "other_speakers"}


run = partial(run_module, "benchmarks.few_shot")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A folder of sweeps, ``<word>/<speaker>_<take>.wav``; a speaker is a pitch."""
    folder, rng = tmp_path_factory.mktemp("few-shot") / "espanol", np.random.default_rng(0)
    time_s = np.arange(16_000) / 16_000
    for word, hz in TONES.items():
        (folder / word).mkdir(parents=True)
        for speaker in range(3):
            for take in range(7):
                tone = np.sin(2 * np.pi * hz * (1 + 0.03 * speaker) * (1 + time_s * rng.uniform(0.4, 0.5)) * time_s)
                noisy = 0.3 * np.hanning(16_000) * tone + 0.003 * rng.standard_normal(16_000)
                (folder / word / f"maria{speaker}_{take}.wav").write_bytes(
                    encode_wave(noisy.astype(np.float32), 16_000)
                )
    return folder


def test_a_language_of_ones_own_is_measured_with_the_network_that_ships(words):
    done = run("--data", words, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [(row["takes"], row["speakers"]) for row in rows] == [(5, 1), (5, 2)]
    for row in rows:
        assert set(row) == KEYS
        assert (row["front_end"], row["ways"]) == ("base", 3)
        assert row["same_speaker"] > 90
        assert row["other_speakers"] > 80


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--front-end", "gudur"], "gudur is no embedding"),
        (["--front-end", "bass"], "unknown features 'bass'"),
        (["--data", "docs/pictures"], "holds no recordings"),
    ],
)
def test_what_is_no_front_end_with_a_network_and_no_folder_of_recordings_is_refused(words, options, said):
    done = run("--data", words, *options)
    assert done.returncode == 1
    assert said in done.stderr
