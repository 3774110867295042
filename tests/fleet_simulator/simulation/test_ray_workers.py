"""The same experiment on a real Ray cluster of this machine."""

import importlib.util

import pytest

from tests.support.checkout import run_module
from tests.support.simulated_fleet import write_experiment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


def test_a_device_that_fails_on_ray_is_named_and_so_is_a_cluster_that_is_not_there(tmp_path, bundles):
    rounds = {"local": {"learning_rate": 10.0, "epochs": 200}}
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=rounds, data={"noise": 9.0})
    done = run_module("fleet_simulator.cli", "run", path, "--output", tmp_path / "run", "--ray", "--workers", 1)
    assert done.returncode == 1
    assert "the training diverged" in done.stderr
    assert "Traceback" not in done.stderr
    done = run_module("fleet_simulator.cli", "run", path, "--output", tmp_path / "run", "--ray", "localhost:1")
    assert done.returncode == 1
    assert "no Ray cluster answers at 'localhost:1'" in done.stderr
