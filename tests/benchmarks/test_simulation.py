"""The simulation benchmark on a few devices: a line and figures for each fleet, beside Flower's."""

import importlib.util
import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_it_prints_a_list_of_every_fleet_s_figures_beside_flower_s_up_to_the_size_asked_for(bundles):
    engines = [("auricle", 2), ("auricle", 5), ("flower", 2)]
    settings = ["--devices", "2", "5", "--flower-most", "2", "--rounds", "3", "--workers", "1", "--json"]
    if importlib.util.find_spec("flwr") is None:
        settings, engines = [*settings, "--without-flower"], engines[:2]
    command = [sys.executable, "-m", "benchmarks.simulation", "--bundle", str(bundles["ann3"]), *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    results = json.loads(lines[-1])
    assert [(result["engine"], result["devices"]) for result in results] == engines
    for result in results:
        assert set(result) == {"engine", "devices", "seconds_per_round", "peak_mb"}
        assert result["seconds_per_round"] > 0
        assert result["peak_mb"] > 30
        assert any(line.split()[:2] == [result["engine"], str(result["devices"])] for line in lines)


def test_a_fleet_that_takes_too_long_is_ended_and_says_what_to_do(bundles):
    command = [sys.executable, "-m", "benchmarks.simulation", "--bundle", str(bundles["ann3"]), "--limit", "1"]
    done = subprocess.run([*command, "--devices", "2000", "--without-flower"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "auricle took more than 1 s for 6 rounds of 2000 devices; raise --limit" in done.stderr
