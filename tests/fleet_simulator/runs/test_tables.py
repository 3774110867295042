"""The simulator as a person uses it: an example, changed settings, and results that other programs read."""

import csv
import json
import os

import numpy as np
import pytest

from fleet_simulator.cli import main
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.sweep import sweep, values_of
from fleet_simulator.runs.run_folder import code_digest
from tests.support.checkout import ROOT, run_module

pytestmark = pytest.mark.slow


def simulate(folder, *arguments, path=""):
    environment = os.environ | {"PYTHONPATH": f"{path}:{ROOT}"}
    return run_module("fleet_simulator.cli", *arguments, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with an example and two runs of it that differ in the strategy."""
    folder = tmp_path_factory.mktemp("runs")
    small = ("--set", "rounds=2", "--set", "fleet.devices=6", "--set", "data.clips=600", "--workers", "0")
    outputs = ("--csv", "rounds.csv")
    for arguments in (
        ("new", "fleet.toml"),
        ("run", "fleet.toml", *small, *outputs),
        ("run", "fleet.toml", *small, "--set", "rounds.strategy=fedprox", "--output", "prox"),
    ):
        done = simulate(folder, *arguments)
        assert done.returncode == 0, done.stderr
    return folder


def test_a_result_tells_how_it_was_made_and_the_csv_has_a_line_for_each_round(runs):
    result = json.loads((runs / "fleet/result.json").read_text())
    about = result["about"]
    assert (about["seed"], about["code"]) == (1, code_digest())
    assert about["version"]
    assert (about["settings"]["rounds"]["count"], about["settings"]["fleet"]["devices"]) == (2, 6)
    with (runs / "rounds.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["accuracy"]) for line in lines] == [entry["accuracy"] for entry in result["rounds"]]
    assert [line["round"] for line in lines] == ["1", "2"]


def test_runs_are_compared_by_what_differs(runs):
    done = simulate(runs, "compare", "fleet", "prox", "--json", "--plot", "accuracy.png")
    rows = json.loads(done.stdout)
    assert [row["run"] for row in rows] == ["fleet", "prox"]
    assert [row["settings"] for row in rows] == [{"rounds.strategy": "fedavg"}, {"rounds.strategy": "fedprox"}]
    last = json.loads((runs / "prox/result.json").read_text())["rounds"][-1]["accuracy"]
    assert rows[1]["accuracy"] == last
    assert (runs / "accuracy.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder with a sweep over three seeds and two rates, which was killed after its first run."""
    folder = tmp_path_factory.mktemp("sweep")
    assert simulate(folder, "new", "fleet.toml").returncode == 0
    small = ("--set", "rounds=2", "--set", "fleet.devices=6", "--set", "data.clips=600", "--workers", "0")
    one = ("--set", "seed=1", "--set", "rounds.local.epochs=1", "--output", "sweep/seed=1,epochs=1")
    first = simulate(folder, "run", "fleet.toml", *small, *one)
    assert first.returncode == 0, first.stderr
    values = ("--set", "seed=1,2,3", "--set", "rounds.local.epochs=1,2")
    outputs = ("--output", "sweep", "--csv", "all.csv")
    done = simulate(folder, "run", "fleet.toml", *small, *values, *outputs)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_sweep_runs_every_combination_in_a_folder_of_its_own_and_goes_on(swept):
    folder, done = swept
    names = [f"seed={seed},epochs={epochs}" for seed in (1, 2, 3) for epochs in (1, 2)]
    assert sorted(path.name for path in (folder / "sweep").iterdir()) == sorted(names)
    for name in names:
        ran = json.loads((folder / "sweep" / name / "result.json").read_text())["about"]["settings"]["rounds"]
        assert f"seed={ran['seed']},epochs={ran['local']['epochs']}" == name
    assert "seed=1,epochs=1\ngoing on after round 2 of 2" in done.stderr
    with (folder / "all.csv").open(newline="") as file:
        assert [(line["run"], line["round"]) for line in csv.DictReader(file)] == [
            (name, number) for name in names for number in "12"
        ]


def test_a_comparison_has_mean_and_deviation_over_seeds(swept):
    folder, done = swept
    rows = json.loads(simulate(folder, "compare", "sweep", "--json").stdout)
    assert len(rows) == 6 + 2
    for epochs, row in zip((1, 2), rows[6:], strict=True):
        found = [one["accuracy"] for one in rows[:6] if one["run"].endswith(f"epochs={epochs}")]
        assert (row["accuracy"], row["accuracy_std"]) == pytest.approx((np.mean(found), np.std(found, ddof=1)))
        assert (row["seeds"], row["settings"]) == ([1, 2, 3], {"rounds.local.epochs": epochs})
        assert row["runs"] == [f"sweep/seed={seed},epochs={epochs}" for seed in (1, 2, 3)]
    lines = simulate(folder, "compare", "sweep").stdout.splitlines()
    spread = f"accuracy {100 * rows[6]['accuracy']:5.1f} ± {100 * rows[6]['accuracy_std']:.1f} %"
    assert lines[6].startswith("mean of 3 seeds")
    assert spread in lines[6]
    assert [line for line in done.stdout.splitlines() if spread in line]  # the sweep itself ends with it, too


def test_a_sweep_takes_no_folder_of_a_single_run(runs):
    done = simulate(runs, "run", "fleet.toml", "--set", "seed=1,2")
    assert (done.returncode, "fleet holds a run that is no sweep" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,3", ["1", "2", "3"]),
        ("fedavg, fedprox", ["fedavg", "fedprox"]),
        ("[1, 2]", ["[1, 2]"]),
        ("[1, 2],[[3], [4, 5]]", ["[1, 2]", "[[3], [4, 5]]"]),
        ("{a = 1, b = 'x,y'},{a = 2}", ["{a = 1, b = 'x,y'}", "{a = 2}"]),
        ('"a,b"', ['"a,b"']),
        ("[never,closed", ["[never,closed"]),
        ("", [""]),
        ("1,,2", ["1", "", "2"]),
    ],
)
def test_what_commas_separate(text, values):
    assert values_of(text) == values


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["seed=1,"], "a value is empty"),
        (["seed=1,1"], "there twice"),
        (["seed=1,2", "rounds.seed=3"], "rounds.seed is changed more than once"),
        (["seed=" + ",".join(map(str, range(40))), "rounds=" + ",".join(map(str, range(40)))], "1600 runs"),
    ],
)
def test_sweeps_that_are_refused(changes, said):
    with pytest.raises(ExperimentError, match=said):
        sweep(changes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "fleet.toml", "--set", "rounds"), "write it like --set rounds.count=20"),
        (("run", "fleet.toml", "--set", "fleet.devices.x=1"), "fleet.devices.x=1: devices is no section"),
        (("run", "fleet.toml", "--set", "fleet.device=1"), "unknown key 'device' in [fleet]"),
        (("new", "fleet.toml"), "is there already"),
        (("compare", "nothing"), "the run has not ended"),
        (("compare", "fleet", "--plot", "picture.doc"), "picture.doc"),
    ],
)
def test_mistakes_are_named(runs, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(runs)
    assert main(arguments) == 1
    assert said in capsys.readouterr().err
