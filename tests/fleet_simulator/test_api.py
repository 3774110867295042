"""The simulator from Python does what the command does, and offers these names, no more and no fewer."""

import json
import tomllib

import pytest

from fleet_simulator import api
from fleet_simulator.cli import main
from tests.support.checkout import ROOT
from tests.support.simulated_fleet import write_experiment

RULE = ROOT / "examples" / "own_strategy" / "gentle_server.py"


def test_the_front_door_offers_exactly_these_names():
    assert set(api.__all__) == {"run", "AuricleError", "ExperimentError"}
    assert all(hasattr(api, name) for name in api.__all__)


def test_a_dict_a_file_and_the_command_come_to_the_same(tmp_path, bundles, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_experiment(tmp_path / "fleet.toml", bundles["ann3"])
    of_file = api.run("fleet.toml")
    of_dict = api.run(tomllib.loads(path.read_text()), "of_dict")
    assert main(["run", "fleet.toml", "--workers", "0", "--output", "command"]) == 0
    assert [entry["round"] for entry in of_file] == [1, 2, 3]
    assert of_file == of_dict == json.loads((tmp_path / "command/result.json").read_text())["rounds"]
    states = {(tmp_path / name / "state.safetensors").read_bytes() for name in ("fleet", "of_dict", "command")}
    assert len(states) == 1


def test_a_method_from_a_file_is_used_where_it_is_named(tmp_path, bundles):
    rule = tmp_path / "rule.py"
    rule.write_text(RULE.read_text().replace('"smoothed"', '"fedavg"'))
    experiment = tomllib.loads(write_experiment(tmp_path / "fleet.toml", bundles["ann3"]).read_text())
    changed = experiment | {"rounds": {"count": 1, "strategy": "gentle"}}
    assert len(api.run(changed, tmp_path / "with", plugins=[rule])) == 1
    with pytest.raises(api.ExperimentError, match="unknown strategy 'gentle'"):
        api.run(changed, tmp_path / "without")


@pytest.mark.parametrize(
    ("changes", "folder", "said"),
    [
        ({}, None, "needs a folder"),
        ({"fleet": {"devices": 0}}, "run", r"experiment: \[fleet\] devices = 0: must be from 1"),
        ({"fleet": 3}, "run", r"experiment: \[fleet\] must be a section of keys, not 3"),
        ({"fleets": {}}, "run", r"unknown section \[fleets\]"),
        ({"users": []}, "run", "experiment: .*zero_shot"),
    ],
)
def test_what_is_wrong_with_a_dict_is_named(tmp_path, bundles, monkeypatch, changes, folder, said):
    monkeypatch.chdir(tmp_path)
    experiment = tomllib.loads(write_experiment(tmp_path / "fleet.toml", bundles["ann3"]).read_text())
    with pytest.raises(api.ExperimentError, match=said):
        api.run(experiment | changes, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.toml"]
