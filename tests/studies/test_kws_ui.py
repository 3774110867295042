"""The study of FedKWS-UI: false accepts and rejects by hand, its tables, and runs that go on from one warm start."""

import numpy as np
import pytest

from studies.kws_ui import runs as study
from studies.render import shown
from tests.support.tiny_study import rows_of, same_as_tracked, summary_of


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


def test_the_tables_say_where_it_is_ahead_and_where_it_is_not(tmp_path):
    def changed(run, _):
        accuracies = {f"{study.DSCNN}: FedOPT": 0.6, f"{study.DSCNN}: FedProx": 0.58}
        low, high = study.MANY_STEPS.values()
        accuracies |= {f"{low}: FedAvg": 0.6, f"{high}: FedAvg": 0.55}
        ours = 0.88 if run.name == f"{study.DSCNN}: FedKWS-UI" else accuracies.get(run.name, 0.5)
        return figures(run.name, run.seed, ours)

    found = summary_of(study, tmp_path, changed)
    table = rows_of(found)["dscnn-12-steps"]
    errors = ["0.25", "20.0"]
    assert table["FedKWS-UI"] == ["89.5 ± 0.7", "0.0 ± 0.0", *errors, "50.0 ± 0.0", "40.0 ± 0.0", "95.0", "10"]
    assert table["FedProx"][:2] == ["59.0", "0.0"]  # of one seed
    assert table["warm start"][0] == "25.0 ± 0.0"
    assert table["alone"][4:6] == ["30.0", "30.0"]
    fleet = found.tables["fleets"].rows[0]
    assert fleet == [study.DSCNN, "11, 12", 45, 30, 60, 5.0]
    leads = {tuple(row[:3]): shown(row[3]) for row in found.tables["leads"].rows}
    assert leads[study.DSCNN, "FedKWS-UI", "FedOPT"] == "28.0 ± 0.0"
    assert leads[study.DSCNN, "FedProx", "FedAvg"] == "8.0"
    assert (study.DSCNN, "FedKWS-UI", "FedProx") not in leads
    assert leads["DSCNN, 50 steps", "FedAvg, rate 0.003", "FedAvg, rate 0.01"] == "5.0 ± 0.0"
    assert leads["DSCNN, 50 steps, rates of the trials", "FedKWS-UI", "FedAvg"] == "-10.0 ± 0.0"
    assert found.tables["reached"].rows == []
    assert [shown(cell) for cell in found.tables["first-seed"].rows[0]] == [study.DSCNN, "public only", "30.0", "30.0"]
