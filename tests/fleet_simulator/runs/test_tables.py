"""The simulator as a person uses it: an example, changed settings, and results that other programs read."""

import contextlib
import csv
import io
import json

import numpy as np
import pytest

from fleet_simulator.cli import main
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.sweep import sweep, values_of
from fleet_simulator.runs.run_folder import code_digest

SMALL = (*("--set", "rounds=2", "--set", "fleet.devices=6", "--set", "data.clips=600"), "--workers", "0")


def simulate(folder, *arguments, status=0):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(arguments) == status, err.getvalue()
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with an example, two runs of it, and a sweep over seeds and rates that was killed after its first."""
    folder = tmp_path_factory.mktemp("runs")
    simulate(folder, "new", "fleet.toml")
    simulate(folder, "run", "fleet.toml", *SMALL, "--csv", "rounds.csv")
    simulate(folder, "run", "fleet.toml", *SMALL, "--set", "rounds.strategy=fedprox", "--output", "prox")
    one = ("--set", "seed=1", "--set", "rounds.local.epochs=1", "--output", "sweep/seed=1,epochs=1")
    simulate(folder, "run", "fleet.toml", *SMALL, *one)
    values = ("--set", "seed=1,2,3", "--set", "rounds.local.epochs=1,2")
    said = simulate(folder, "run", "fleet.toml", *SMALL, *values, "--output", "sweep", "--csv", "all.csv")
    return folder, *said


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_result_tells_how_it_was_made_and_the_csv_has_a_line_for_each_round(runs):
    result = json.loads((runs[0] / "fleet/result.json").read_text())
    about = result["about"]
    assert (about["seed"], about["code"]) == (1, code_digest())
    assert about["version"]
    assert (about["settings"]["rounds"]["count"], about["settings"]["fleet"]["devices"]) == (2, 6)
    lines = table(runs[0] / "rounds.csv")
    assert [float(line["accuracy"]) for line in lines] == [entry["accuracy"] for entry in result["rounds"]]
    assert [line["round"] for line in lines] == ["1", "2"]


def test_runs_are_compared_by_what_differs(runs):
    rows = json.loads(simulate(runs[0], "compare", "fleet", "prox", "--json", "--plot", "accuracy.png")[0])
    assert [row["run"] for row in rows] == ["fleet", "prox"]
    assert [row["settings"] for row in rows] == [{"rounds.strategy": "fedavg"}, {"rounds.strategy": "fedprox"}]
    last = json.loads((runs[0] / "prox/result.json").read_text())["rounds"][-1]["accuracy"]
    assert rows[1]["accuracy"] == last
    assert (runs[0] / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_runs_every_combination_goes_on_and_is_compared_over_its_seeds(runs):
    folder, out, err = runs
    names = [f"seed={seed},epochs={epochs}" for seed in (1, 2, 3) for epochs in (1, 2)]
    assert sorted(path.name for path in (folder / "sweep").iterdir()) == sorted(names)
    for name in names:
        ran = json.loads((folder / "sweep" / name / "result.json").read_text())["about"]["settings"]["rounds"]
        assert f"seed={ran['seed']},epochs={ran['local']['epochs']}" == name
    assert "seed=1,epochs=1\ngoing on after round 2 of 2" in err
    lines = table(folder / "all.csv")
    assert [(line["run"], line["round"]) for line in lines] == [(name, number) for name in names for number in "12"]
    rows = json.loads(simulate(folder, "compare", "sweep", "--json")[0])
    assert len(rows) == 6 + 2
    for epochs, row in zip((1, 2), rows[6:], strict=True):
        found = [one["accuracy"] for one in rows[:6] if one["run"].endswith(f"epochs={epochs}")]
        assert (row["accuracy"], row["accuracy_std"]) == pytest.approx((np.mean(found), np.std(found, ddof=1)))
        assert (row["seeds"], row["settings"]) == ([1, 2, 3], {"rounds.local.epochs": epochs})
        assert row["runs"] == [f"sweep/seed={seed},epochs={epochs}" for seed in (1, 2, 3)]
    spread = f"accuracy {100 * rows[6]['accuracy']:5.1f} ± {100 * rows[6]['accuracy_std']:.1f} %"
    shown = simulate(folder, "compare", "sweep")[0].splitlines()[6]
    assert shown.startswith("mean of 3 seeds")
    assert spread in shown
    assert spread in out  # the sweep itself ends with it, too


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,3", ["1", "2", "3"]),
        ("fedavg, fedprox", ["fedavg", "fedprox"]),
        ("[1, 2],[[3], [4, 5]]", ["[1, 2]", "[[3], [4, 5]]"]),
        ("{a = 1, b = 'x,y'},{a = 2}", ["{a = 1, b = 'x,y'}", "{a = 2}"]),
        ('"a,b"', ['"a,b"']),
        ("[never,closed", ["[never,closed"]),
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
        (("run", "fleet.toml", "--set", "seed=1,2"), "fleet holds a run that is no sweep"),
        (("new", "fleet.toml"), "is there already"),
        (("compare", "nothing"), "the run has not ended"),
        (("compare", "fleet", "--plot", "picture.doc"), "picture.doc"),
    ],
)
def test_mistakes_are_named(runs, arguments, said):
    assert said in simulate(runs[0], *arguments, status=1)[1]
