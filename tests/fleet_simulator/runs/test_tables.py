"""The simulator as a person uses it: an example, changed settings, and results that other programs read."""

import csv
import json
import os
import subprocess
import sys

import pytest

from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.changes import apply_changes
from fleet_simulator.runs.about import code_digest
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow


def simulate(folder, *arguments, path=""):
    return subprocess.run(
        [sys.executable, "-m", "fleet_simulator.cli", *arguments], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{path}:{ROOT}"}, timeout=240,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with an example and two runs of it that differ in the strategy."""
    folder = tmp_path_factory.mktemp("runs")
    small = ("--set", "rounds=2", "--set", "fleet.devices=6", "--set", "data.clips=600", "--workers", "0")
    outputs = ("--csv", "rounds.csv", "--tensorboard", "board")
    for arguments in (
        ("new", "fleet.toml"),
        ("run", "fleet.toml", *small, *outputs),
        ("run", "fleet.toml", *small, "--set", "rounds.strategy=fedprox", "--output", "prox"),
    ):
        done = simulate(folder, *arguments)
        assert done.returncode == 0, done.stderr
    return folder


def test_a_result_tells_how_it_was_made(runs):
    about = json.loads((runs / "fleet/result.json").read_text())["about"]
    assert about["seed"] == 1
    assert about["version"]
    assert about["code"] == code_digest()
    assert about["settings"]["rounds"]["count"] == 2
    assert about["settings"]["fleet"]["devices"] == 6


def test_the_csv_has_a_line_for_each_round(runs):
    rounds = json.loads((runs / "fleet/result.json").read_text())["rounds"]
    with (runs / "rounds.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["accuracy"]) for line in lines] == [entry["accuracy"] for entry in rounds]
    assert [line["round"] for line in lines] == ["1", "2"]


def test_tensorboard_gets_every_round(runs):
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import RecordWriter  # noqa: F401  (that its format is the one that is read below)

    (path,) = (runs / "board").iterdir()
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):  # a record: length, its checksum, the event, its checksum
        length = int.from_bytes(data[at : at + 8], "little")
        event = Event.FromString(data[at + 12 : at + 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        at += 12 + length + 4
    rounds = json.loads((runs / "fleet/result.json").read_text())["rounds"]
    drawn = [(step, value) for tag, step, value in found if tag == "accuracy"]
    assert drawn == [(entry["round"], pytest.approx(entry["accuracy"])) for entry in rounds]


def test_runs_are_compared_by_what_differs(runs):
    done = simulate(runs, "compare", "fleet", "prox", "--json", "--plot", "accuracy.png")
    rows = json.loads(done.stdout)
    assert [row["run"] for row in rows] == ["fleet", "prox"]
    assert [row["settings"] for row in rows] == [{"rounds.strategy": "fedavg"}, {"rounds.strategy": "fedprox"}]
    last = json.loads((runs / "prox/result.json").read_text())["rounds"][-1]["accuracy"]
    assert rows[1]["accuracy"] == last
    assert (runs / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_is_printed_without_matplotlib_too(runs, tmp_path):
    missing = "raise ModuleNotFoundError('No module named matplotlib', name='matplotlib')"
    (tmp_path / "matplotlib.py").write_text(missing)
    done = simulate(runs, "compare", "fleet", "prox", "--plot", "none.png", path=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["fleet", "prox"]
    assert (done.returncode, "pip install 'auricle[sim]'" in done.stderr) == (1, True), done.stderr
    assert not (runs / "none.png").exists()


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
def test_mistakes_are_named(runs, arguments, said):
    done = simulate(runs, *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_value_is_what_toml_makes_of_it_or_a_word():
    document = {"rounds": {"count": 3}}
    apply_changes(document, ["rounds=5", "rounds.local.epochs=2", "rounds.strategy=fedavg", "data.labels=['a', 'b']"])
    assert document == {
        "rounds": {"count": 5, "local": {"epochs": 2}, "strategy": "fedavg"}, "data": {"labels": ["a", "b"]},
    }  # fmt: skip
    with pytest.raises(ExperimentError, match="name the section too"):
        apply_changes(document, ["count=5"])
