"""The papers' tables: whatever kills `make experiments`, the same command goes on, and the text comes from the runs."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from benchmarks.bundles import BenchmarkError
from benchmarks.papers.__main__ import run_tables
from benchmarks.papers.report import gain, markdown_table, mean_and_spread
from benchmarks.papers.run import Call, Run, RunFiles
from benchmarks.papers.scale import Scale
from benchmarks.papers.simulated import simulated
from benchmarks.papers.tables import NAMES
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from tests.support.checkout import ROOT
from tests.support.paper_table import TinyTable


@pytest.fixture
def scale(tmp_path):
    return Scale(False, tmp_path / "out")


def run(table, scale, processes=2):
    return run_tables({"tiny": table}, scale, processes, scale.output / "results.md")


def test_a_table_is_written_from_runs_that_are_done_once_each(bundles, tmp_path, scale, capsys):
    table = TinyTable(bundles["ann3"], tmp_path)
    assert run(table, scale) == []
    text = (scale.output / "tiny.md").read_text()
    assert text.startswith("## Made-up clips\n| run | accuracy, % | seeds |\n| --- | ---: | ---: |\n")
    assert "| counted | 15.0 ± 7.1 | [1, 2] |" in text
    assert "| FedAvg | " in text
    assert sorted(table.calls.read_text().split()) == ["1", "2"]
    document = json.loads((scale.output / "results.json").read_text())
    assert document["scale"] == "small"
    assert {"processor", "cores", "system", "python", "runtime"} == set(document["machines"][0])
    found = document["tables"]["tiny"]["runs"]
    assert [(entry["name"], entry["seed"]) for entry in found[:3]] == [
        ("FedAvg", 1), ("the same again", 1), ("counted", 1),
    ]  # fmt: skip
    assert found[0]["digest"] == found[1]["digest"] != found[2]["digest"]
    assert [entry["round"] for entry in found[0]["figures"]["rounds"]] == [1, 2]
    assert not any((scale.output / "unfinished").iterdir())
    assert not (scale.output / "results.md").exists()  # which is for all tables together
    assert "4/4  tiny: " in capsys.readouterr().err
    assert {path.stem for path in (scale.output / "runs").iterdir()} == {entry["digest"] for entry in found}


def test_what_is_on_the_disk_is_not_run_again(bundles, tmp_path, scale):
    table = TinyTable(bundles["ann3"], tmp_path)
    run(table, scale)
    before = (scale.output / "tiny.md").read_text()
    lost = RunFiles(scale.output).folder / f"{table.runs(scale)[2].digest}.json"
    lost.unlink()
    run(table, scale, processes=1)
    assert sorted(table.calls.read_text().split()) == ["1", "1", "2"]
    assert (scale.output / "tiny.md").read_text().split(" runs, ")[0] == before.split(" runs, ")[0]


def test_settings_seeds_and_bundles_make_a_run_another_one(bundles, tmp_path):
    def digest(seed=1, **arguments):
        return Run("a", seed, Call(run, {"bundle": bundles["ann3"], "rate": 0.1} | arguments)).digest

    copy = tmp_path / "copy.auricle"
    shutil.copy(bundles["ann3"], copy)
    assert digest() == digest(bundle=copy)
    assert len({digest(), digest(seed=2), digest(rate=0.2), digest(bundle=bundles["cnn1"])}) == 4
    table = TinyTable(bundles["ann3"], tmp_path)
    longer = TinyTable(bundles["ann3"], tmp_path, rounds=3)
    assert table.runs(None)[0].digest != longer.runs(None)[0].digest


def test_code_makes_a_run_another_one(tmp_path):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "unused.py").write_text("A = 1\n")
    (folder / "used.py").write_text("A = 1\n")
    (folder / "table.py").write_text("import json\nfrom benchmarks.used import A\n")
    command = "from benchmarks.papers_code import code_of; print(code_of('benchmarks.table'))"
    shutil.copy(ROOT / "benchmarks" / "papers" / "code.py", folder / "papers_code.py")

    def digest():
        path = f"{tmp_path}:{ROOT}"
        done = subprocess.run(
            [sys.executable, "-c", command], env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    first = digest()
    (folder / "unused.py").write_text("A = 2\n")
    assert digest() == first
    (folder / "used.py").write_text("A = 2\n")
    assert digest() != first


def test_a_run_that_fails_is_named_and_the_others_are_kept(bundles, tmp_path, scale):
    table = TinyTable(bundles["ann3"], tmp_path)
    (tmp_path / "broken").touch()
    problems = run(table, scale)
    assert sorted(problem.split(":")[0] for problem in problems) == ["counted, seed 1", "counted, seed 2"]
    assert "ValueError: seed 1 is broken" in "".join(problems)
    assert not (scale.output / "tiny.md").exists()
    (tmp_path / "broken").unlink()
    assert run(table, scale) == []
    assert "FedAvg" in (scale.output / "tiny.md").read_text()


def test_all_tables_together_make_the_document(bundles, tmp_path, scale):
    tables = {name: TinyTable(bundles["ann3"], tmp_path) for name in NAMES}
    document = scale.output / "results.md"
    assert run_tables(tables, scale, 1, document) == []
    text = document.read_text()
    assert "Written by `make experiments`" in text
    assert text.count("## Made-up clips") == len(NAMES)
    assert "Scale: small. 4 runs in " in text


def test_one_table_replaces_its_own_section_of_a_document_of_the_same_scale(bundles, tmp_path, scale):
    document = tmp_path / "results.md"
    head, other = "# Tables\nWritten.\n\nScale: small. 3 runs.\n\n", "## Other\ntext\n\n### Part\nmore\n"
    document.write_text(f"{head}## Made-up clips\nformer\n\n### Former part\n\n{other}")
    table = TinyTable(bundles["ann3"], tmp_path)
    assert run_tables({"tiny": table}, scale, 1, document) == []
    section = (scale.output / "tiny.md").read_text()
    assert document.read_text() == f"{head}{section}\n{other}"
    document.write_text(head + other)
    assert run_tables({"tiny": table}, scale, 1, document) == []
    assert document.read_text() == f"{head}{other}\n{section}"
    document.write_text(of_full := head.replace("small", "full") + other)
    assert run_tables({"tiny": table}, scale, 1, document) == []
    assert document.read_text() == of_full


def test_data_that_is_not_there_is_named_before_anything_runs(tmp_path, scale, monkeypatch):
    monkeypatch.setenv("AURICLE_DATA", str(tmp_path))
    with pytest.raises(BenchmarkError, match=r"no gsc_v2_logmel_jpg.zip in .*AURICLE_DATA"):
        scale.data("gsc_v2_logmel_jpg.zip")


def test_a_table_that_does_not_exist_is_refused_with_those_that_do():
    command = [sys.executable, "-m", "benchmarks.papers", "--table", "iris"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "zero_shot" in result.stderr


def test_figures_are_told_with_their_spread():
    assert mean_and_spread([84.0, 85.0]) == "84.5 ± 0.7"
    assert mean_and_spread([84.04]) == "84.0"
    assert gain([3.0, 5.0], [1.0, 1.0]) == "+3.0 ± 1.4"
    assert gain([1.0], [2.5]) == "-1.5"
    assert markdown_table(["a", "b"], [["c", 1]]) == "| a | b |\n| --- | ---: |\n| c | 1 |\n"


def test_a_training_that_diverges_is_a_result(bundles, tmp_path):
    experiment = Experiment(
        DataSection("synthetic", clips=300, classes=4, speakers=30, noise=1e6),
        FleetSection(devices=6),
        ModelSection(bundles["ann3"]),
        RoundsSection(count=3, local={"epochs": 200, "learning_rate": 10.0}),
    )
    figures = simulated(experiment, tmp_path / "run")
    assert "diverged" in figures["diverged"]
    assert len(figures["rounds"]) < 3
    assert not (tmp_path / "run").exists()
