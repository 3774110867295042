"""Methods in a file: used by the simulator and its workers, told in the result, refused where they are of no use."""

import hashlib
import json
import os

import pytest

from aggregator_server.aggregation.rule import rules
from aggregator_server.strategies.plans import strategies
from fleet_protocol.errors import PluginError
from fleet_simulator.cli import main
from fleet_simulator.plugins import Plugin, load_plugins, use_plugins
from tests.support.checkout import ROOT, run_module
from tests.support.simulated_fleet import write_experiment

EXAMPLE = ROOT / "examples" / "own_strategy"
FILES = (EXAMPLE / "gentle_server.py", EXAMPLE / "gentle_device.py")
ROUNDS = {"count": 2, "strategy": "gentle", "local": {"epochs": 1, "label_smoothing": 0.3}}

pytestmark = pytest.mark.slow


def run(path, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return run_module("fleet_simulator.cli", "run", path.name, *arguments, cwd=path.parent, env=environment)


def plugins(*files):
    return [word for file in files for word in ("--plugin", file)]


@pytest.mark.parametrize("workers", [("--workers", "2"), ("--ray", "--workers", "2")], ids=["processes", "ray"])
def test_a_files_methods_work_in_workers_too_and_the_result_tells_their_digest(tmp_path, bundles, workers):
    if "--ray" in workers:
        pytest.importorskip("ray")
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds=ROUNDS)
    for name, how in (("workers", workers), ("alone", ("--workers", "0"))):
        done = run(path, "--output", name, *how, *plugins(*FILES))
        assert done.returncode == 0, done.stderr
    for file in ("state.safetensors", "result.json"):
        assert (tmp_path / "workers" / file).read_bytes() == (tmp_path / "alone" / file).read_bytes()
    settings = json.loads((tmp_path / "workers/result.json").read_text())["about"]["settings"]
    assert settings["plugins"] == [
        {"path": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()} for file in FILES
    ]
    assert settings["rounds"]["strategy"] == "gentle"


def test_a_run_does_not_go_on_with_another_rule(tmp_path, bundles):
    rule = tmp_path / "rule.py"
    rule.write_text(FILES[0].read_text().replace('"smoothed"', '"fedavg"'))
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"], rounds={"count": 1, "strategy": "gentle"})
    longer = ("--workers", "0", "--set", "rounds=2", *plugins(rule))
    assert run(path, "--workers", "0", *plugins(rule)).returncode == 0
    assert run(path, *longer).returncode == 0
    rule.write_text(rule.read_text() + "# changed")
    done = run(path, *longer)
    assert (done.returncode, "e holds the run of another experiment" in done.stderr) == (1, True), done.stderr
    done = run(path, *longer[:-2])
    assert (done.returncode, "unknown strategy 'gentle'" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is no file"),
        ("x = 1", "has none of METHOD, RULE, SELECTION, PERSONALISATION, STRATEGY; docs/writing-a-strategy.md"),
        ("RULE = 1", "RULE of the plugin"),
        ("import nothere", "cannot be imported: ModuleNotFoundError: No module named 'nothere'"),
        ("raise SystemExit(0)", "cannot be imported: SystemExit"),
        ("def (", "cannot be imported: SyntaxError"),
        ("\0", "cannot be imported"),
        (FILES[0].read_text(), "'gentle' names the unknown local method 'smoothed'"),
        (FILES[0].read_text().replace('"power_mean", {', '"median", {'), "the name 'median' is taken"),
    ],
)
def test_a_file_that_is_of_no_use_is_refused_before_anything_starts(tmp_path, bundles, monkeypatch, capsys, text, said):
    write_experiment(tmp_path / "e.toml", bundles["ann3"])
    if text is not None:
        (tmp_path / "rule.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "e.toml", *plugins("rule.py")]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert "rule.py" in told or "gentle" in told
    assert not (tmp_path / "e").exists()


def test_a_file_that_changes_during_a_run_is_refused_and_one_that_is_used_no_more_is_forgotten(tmp_path):
    rule = tmp_path / "rule.py"
    rule.write_text(FILES[0].read_text().replace('"smoothed"', '"fedavg"'))
    assert "gentle" not in strategies()  # asked before, so that it is in the registries' memory
    try:
        load_plugins([rule])
        assert "gentle" in strategies()
        with pytest.raises(PluginError, match=r"rule\.py was changed while the run was on"):
            use_plugins((Plugin(rule, "0" * 64),))
        assert "power_mean" in rules()
    finally:
        load_plugins([])
    assert "gentle" not in strategies()
    assert "power_mean" not in rules()
