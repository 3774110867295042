"""The simulator as a person uses it: an example, changed settings, and results that other programs read."""

import contextlib
import csv
import io
import json

import pytest

from fleet_simulator.cli import main
from fleet_simulator.runs.run_folder import code_digest

SMALL = (*("--set", "rounds=2", "--set", "fleet.devices=6", "--set", "data.clips=600"), "--workers", "0")


def simulate(folder, *arguments, status=0):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(arguments) == status, err.getvalue()
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an example, and its run."""
    made = tmp_path_factory.mktemp("runs")
    simulate(made, "new", "fleet.toml")
    simulate(made, "run", "fleet.toml", *SMALL, "--csv", "rounds.csv")
    return made


def test_a_result_tells_how_it_was_made_and_the_csv_has_a_line_for_each_round(folder):
    result = json.loads((folder / "fleet/result.json").read_text())
    about = result["about"]
    assert (about["seed"], about["code"]) == (1, code_digest())
    assert about["version"]
    assert (about["settings"]["rounds"]["count"], about["settings"]["fleet"]["devices"]) == (2, 6)
    with (folder / "rounds.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["accuracy"]) for line in lines] == [entry["accuracy"] for entry in result["rounds"]]
    assert [line["round"] for line in lines] == ["1", "2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "fleet.toml", "--set", "rounds"), "write it like --set rounds.count=20"),
        (("run", "fleet.toml", "--set", "fleet.devices.x=1"), "fleet.devices.x=1: devices is no section"),
        (("new", "fleet.toml"), "is there already"),
    ],
)
def test_mistakes_are_named(folder, arguments, said):
    assert said in simulate(folder, *arguments, status=1)[1]
