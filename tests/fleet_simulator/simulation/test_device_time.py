"""A round's simulated seconds are what its devices' samples and transfers would take."""

import numpy as np
import pytest

from fleet_simulator.experiment.file import load_experiment
from fleet_simulator.experiment.sections import FleetSection
from fleet_simulator.simulation.device_time import DeviceTime
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
    entry = simulate(load_experiment(path), tmp_path / "run").rounds[0]
    clips = 600 - np.sum(entry["confusion"])  # on the devices
    assert entry["device_seconds"] == pytest.approx(0.5 * samples * clips)
    assert entry["round_seconds"] < entry["device_seconds"]
