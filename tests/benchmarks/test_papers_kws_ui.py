"""The table on FedKWS-UI: false accepts and rejects by hand, its text, and runs that go on from one warm start."""

import numpy as np
import pytest

from benchmarks.papers import kws_ui
from benchmarks.papers.report import Results
from benchmarks.papers.run import Call, Outcome, Run
from benchmarks.papers.warm_start import from_warm_start
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection


def confusion(words=(8,) * 10, taken_for_a_word=3) -> list[list[int]]:
    """Ten clips of every keyword, of which so many are named rightly and the others unknown; 30 clips of silence."""
    counts = np.zeros((12, 12), int)
    for word, right in enumerate(words):
        counts[word, word], counts[word, 10] = right, 10 - right
    counts[11, 11], counts[11, 0] = 30 - taken_for_a_word, taken_for_a_word
    return counts.tolist()


def test_false_accepts_and_rejects_are_means_over_the_keywords_alone():
    figures = {"rounds": [{"confusion": confusion()}]}
    accept, reject = kws_ui.keyword_errors(figures)
    assert reject == pytest.approx(0.2)
    assert accept == pytest.approx(3 / 120 / 10)  # one keyword of ten, in 120 clips that are not its


def results(accuracies) -> Results:
    by_name = {}
    for classes in kws_ui.TASKS:
        for network in kws_ui.NETWORKS.values():
            for method in kws_ui.METHODS:
                rounds = [{"accuracy": 0.1}, *({"accuracy": accuracies.get(method, 0.5)} for _ in range(3))]
                rounds[-1] |= {"devices": 8, "round": 3, "confusion": confusion()}
                name = f"{classes} classes, {network.title}, {method}"
                run = Run(name, 1, Call(kws_ui.runs))
                by_name[name] = [(run, Outcome({"rounds": rounds}, 0.0, 1.0, {}))]
    return Results(False, by_name)


def test_the_text_says_where_it_is_ahead_and_where_it_is_not():
    ahead = kws_ui.section(results({"FedKWS-UI": 0.62, "FedOPT": 0.6}))
    assert "- 12 classes, DSCNN: +2.0 over FedOPT" in ahead
    assert "| FedKWS-UI | 62.0 | 62.0 | 62.0 | 62.0 |" in ahead
    assert "| FedKWS-UI | 0.25 / 20.0 |" in ahead
    assert "- 35 classes, ResNet: -10.0 over FedMMD" in kws_ui.section(results({"FedKWS-UI": 0.4, "FedMMD": 0.5001}))


def test_runs_go_on_from_one_warm_start_that_knows_something(bundles, tmp_path):
    bundle, folder = bundles["ann3"], tmp_path / "warm"
    data = DataSection("synthetic", clips=1200, classes=4, speakers=40, noise=0.5, public=0.3)
    found = []
    for strategy in ("fedavg", "fedkws_ui"):
        rounds = RoundsSection(count=1, strategy=strategy, seed=3, local={"steps": 1, "learning_rate": 1e-6})
        experiment = Experiment(data, FleetSection(devices=4), ModelSection(bundle), rounds)
        found.append(from_warm_start(experiment, bundle, 0.02, 5, folder)["rounds"][-1]["accuracy"])
        (start,) = folder.iterdir()
        found.append(start.stat().st_mtime_ns)
    assert found[0] > 0.8
    assert found[0] == pytest.approx(found[2], abs=0.01)
    assert found[1] == found[3]  # made once
