"""`benchmarks.open_set`: the share of words that pass a threshold which lets few others through."""

from functools import partial

import numpy as np

from benchmarks.open_set import KEYWORDS, figures, share_found
from fleet_protocol.front_end_members import FOLDER
from tests.support.checkout import run_module

run = partial(run_module, "benchmarks.open_set")


def test_the_threshold_lets_no_more_of_the_others_through_than_may_pass():
    others = np.arange(100) / 100
    scores, right = np.array([0.995, 0.985, 0.985, 0.5]), np.array([True, True, False, True])
    assert share_found(scores, right, others, 0.0) == 0.25
    assert share_found(scores, right, others, 0.01) == 0.5  # 0.99 passes as well
    assert share_found(np.full(4, 0.99), right, others, 0.0) == 0.0


def test_words_that_lie_apart_are_found_and_such_as_others_are_not():
    rng = np.random.default_rng(0)
    directions = np.eye(12)

    def clips(rows, count):
        noisy = np.repeat(directions[rows], count, axis=0) + 0.05 * rng.standard_normal((len(rows) * count, 12))
        return noisy / np.linalg.norm(noisy, axis=1, keepdims=True)

    words = np.repeat(KEYWORDS, 12)
    taught, apart, alike = clips(range(10), 12), clips([10, 11], 50), clips([0, 1], 50)
    assert figures(taught, taught, apart, words, words, 0) == {"at_1_percent": 100.0, "at_5_percent": 100.0}
    assert figures(taught, taught, alike, words, words, 0)["at_5_percent"] < 90
    between = clips([0, 1], 50) + directions[10]
    between /= np.linalg.norm(between, axis=1, keepdims=True)
    assert figures(taught, taught, between, words, words, 0, directions[10:])["at_1_percent"] == 100.0


def test_a_network_that_heard_the_words_is_refused(tmp_path, monkeypatch):
    for name in ("gsc_v2_logmel_jpg.zip", "gsc_v2_test"):
        (tmp_path / name).touch()
    monkeypatch.setenv("AURICLE_DATA", str(tmp_path))
    done = run(FOLDER / "base.frontend")
    assert done.returncode == 1
    assert "was trained on down, go, left" in done.stderr
    assert "--leave-out-words yes,no" in done.stderr
