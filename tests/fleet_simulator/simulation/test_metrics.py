"""Accuracy, F1, false accepts and false rejects are those counted by hand."""

import numpy as np
import pytest

from fleet_simulator.experiment.file import load
from fleet_simulator.simulation.metrics import metrics
from tests.support.simulated_fleet import simulate, write_experiment


def test_figures_of_three_classes_are_those_counted_by_hand():
    found = metrics(np.array([[8, 2, 0], [1, 3, 0], [0, 1, 5]]))
    assert found["accuracy"] == pytest.approx(16 / 20)
    # F1 = 2 right / (clips + taken): 16/19, 6/10, 10/11.
    assert found["macro_f1"] == pytest.approx((16 / 19 + 6 / 10 + 10 / 11) / 3)
    assert found["false_accept"] == pytest.approx((1 / 10 + 3 / 16 + 0 / 14) / 3)
    assert found["false_reject"] == pytest.approx((2 / 10 + 1 / 4 + 1 / 6) / 3)


def test_a_run_tells_them_for_tested_rounds_and_the_matrix_after_the_last(tmp_path, bundles):
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds={"count": 5, "evaluate_every": 2})
    rounds = simulate(load(path), tmp_path / "run").rounds
    assert [entry["round"] for entry in rounds if "accuracy" in entry] == [2, 4, 5]
    confusion = np.array(rounds[-1]["confusion"])
    assert "confusion" not in rounds[1]
    assert metrics(confusion).items() <= rounds[-1].items()
    assert confusion.sum() > 60  # about a fifth of 600 clips
