"""A round's simulated seconds, and accuracy, F1, false accepts and false rejects, are those counted by hand."""

import numpy as np
import pytest

from fleet_simulator.experiment.file import load
from fleet_simulator.experiment.sections import FleetSection
from fleet_simulator.simulation.metrics import DeviceTime, metrics
from tests.support.simulated_fleet import simulate, write_experiment


def test_a_round_lasts_as_long_as_its_slowest_device():
    fleet = FleetSection(devices=3, sample_seconds=0.01, bytes_per_second=8_000.0)
    time = DeviceTime.of(fleet, seed=0)  # 8,000 bytes down and up: one second
    assert time.of_round([0, 2], [100, 300], [1_000, 1_000]) == {
        "round_seconds": pytest.approx(4.0),
        "device_seconds": pytest.approx(6.0),
    }


def test_speeds_spread_as_told_around_the_usual_device():
    fleet = FleetSection(devices=10_000, sample_seconds=0.002, speed_spread=0.5)
    seconds = DeviceTime.of(fleet, 1).sample_s
    assert np.median(seconds) == pytest.approx(0.002, rel=0.03)
    assert np.std(np.log(seconds)) == pytest.approx(0.5, rel=0.03)
    assert (seconds == DeviceTime.of(fleet, 1).sample_s).all()


@pytest.mark.parametrize(
    ("rounds", "samples"),
    [
        ({"local": {"epochs": 3}}, 3),
        ({"strategy": "fedmlac", "local": {"epochs": 1, "warm_up": 3}}, 5),  # the own model is trained as well
    ],
)
def test_every_sample_of_every_step_is_counted(tmp_path, bundles, rounds, samples):
    path = write_experiment(
        tmp_path / "e.toml", bundles["ann3"], rounds={"count": 1, **rounds}, fleet={"sample_seconds": 0.5}
    )
    entry = simulate(load(path), tmp_path / "run").rounds[0]
    clips = 600 - np.sum(entry["confusion"])  # on the devices
    assert entry["device_seconds"] == pytest.approx(0.5 * samples * clips)
    assert entry["round_seconds"] < entry["device_seconds"]


def test_figures_of_three_classes_are_those_counted_by_hand():
    found = metrics(np.array([[8, 2, 0], [1, 3, 0], [0, 1, 5]]))
    assert found["accuracy"] == pytest.approx(16 / 20)
    # F1 = 2 right / (clips + taken): 16/19, 6/10, 10/11.
    assert found["macro_f1"] == pytest.approx((16 / 19 + 6 / 10 + 10 / 11) / 3)
    assert found["false_accept"] == pytest.approx((1 / 10 + 3 / 16 + 0 / 14) / 3)
    assert found["false_reject"] == pytest.approx((2 / 10 + 1 / 4 + 1 / 6) / 3)


def test_a_class_without_clips_counts_for_nothing():
    with_empty = metrics(np.array([[3, 1, 0], [0, 4, 0], [0, 0, 0]]))
    assert with_empty == metrics(np.array([[3, 1], [0, 4]]))


def test_a_run_tells_them_for_tested_rounds_and_the_matrix_after_the_last(tmp_path, bundles):
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds={"count": 5, "evaluate_every": 2})
    rounds = simulate(load(path), tmp_path / "run").rounds
    assert [entry["round"] for entry in rounds if "accuracy" in entry] == [2, 4, 5]
    confusion = np.array(rounds[-1]["confusion"])
    assert "confusion" not in rounds[1]
    assert metrics(confusion).items() <= rounds[-1].items()
    assert confusion.sum() > 60  # about a fifth of 600 clips
