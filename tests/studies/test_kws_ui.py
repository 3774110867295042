"""The study of FedKWS-UI: false accepts and rejects by hand, its tables, and runs that go on from one warm start."""

import numpy as np
import pytest

from studies.kws_ui import runs as study
from tests.support.tiny_study import same_as_tracked, summary_of


def confusion(words=(8,) * 10, taken_for_a_word=3) -> list[list[int]]:
    """Ten clips of every keyword, of which so many are named rightly and the others unknown; 30 clips of silence."""
    counts = np.zeros((12, 12), int)
    for word, right in enumerate(words):
        counts[word, word], counts[word, 10] = right, 10 - right
    counts[11, 11], counts[11, 0] = 30 - taken_for_a_word, taken_for_a_word
    return counts.tolist()


def test_false_accepts_and_rejects_are_means_over_the_keywords_alone():
    accept, reject = study.keyword_errors({"rounds": [{"confusion": confusion()}]})
    assert reject == pytest.approx(20.0)
    assert accept == pytest.approx(3 / 120 / 10 * 100)  # one keyword of ten, in 120 clips that are not its


def test_an_accuracy_is_the_mean_of_the_last_five_tests():
    rounds = [{"round": number, "accuracy": value} for number, value in enumerate((0.1, 0.5, 0.6, 0.5, 0.6, 0.5), 1)]
    assert study.accuracy({"rounds": rounds}) == pytest.approx(54.0)
    assert study.accuracy({"rounds": rounds, "diverged": "device 3"}) == 0.0
    assert study.swing({"rounds": rounds}) == pytest.approx(10.0)


def figures(name, seed, accuracy=0.5):
    title, method = name.split(": ")
    entry = {"accuracy": accuracy + 0.01 * (seed - 10), "samples": 2_000, "devices": 1}
    rounds = [{"round": 3 * (test + 1)} | entry for test in range(5)]
    rounds[-1] |= {"confusion": confusion()}
    device = {"clips": 30 * (seed - 10), "listening_own": 0.5, "listening_strangers": 0.4, "own_trained": 0.95}
    if method == "FedAvg" and title in (study.DSCNN, study.BASE) and seed == 11:
        device |= {f"{kind}_{on}": 0.3 for kind in ("alone", "public", "both") for on in ("own", "strangers")}
    start = {} if title.startswith("base") else {"start": {"accuracy": 0.25}}
    return {"rounds": rounds, "devices": [device]} | start


def test_made_up_figures_make_the_tracked_tables(tmp_path):
    found = summary_of(study, tmp_path, lambda run, _: figures(run.name, run.seed, 0.9))
    by_hand = {"published", "settings", "trials", "more-trials"}
    same_as_tracked("kws_ui", found, by_hand)
