"""The papers' tables: whatever kills `make experiments`, the same command goes on, and the text comes from the runs."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks.bundles import BenchmarkError
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies import __main__ as command
from studies.__main__ import run_tables
from studies.drawn import PICTURES
from studies.estimate import RefusedError, estimate
from studies.redraw import redraw
from studies.report import gain, markdown_table, mean_and_spread
from studies.run import Call, Run, RunFiles
from studies.scale import Scale
from studies.simulated import simulated
from studies.tables import NAMES, load_table
from tests.support.checkout import ROOT
from tests.support.tiny_study import TinyTable


@pytest.fixture
def scale(tmp_path):
    return Scale(False, tmp_path / "out")


@pytest.fixture
def named(bundles, tmp_path, monkeypatch):
    """Tiny tables by the names of real ones, and one of its own; docs/results.md has a picture of each."""
    found = {name: TinyTable(bundles["ann3"], tmp_path, title=f"Table {name}") for name in NAMES}
    found["tiny"] = TinyTable(bundles["ann3"], tmp_path)
    for name, table in found.items():
        monkeypatch.setitem(PICTURES, name, table.pictures)
    return found


def run(table, scale, processes=2):
    return run_tables({"tiny": table}, scale, processes, scale.output / "results.md")


def test_a_table_is_written_from_runs_that_are_done_once_each(bundles, tmp_path, scale, capsys):
    table = TinyTable(bundles["ann3"], tmp_path)
    assert run(table, scale) == []
    text = (scale.output / "tiny.md").read_text()
    assert text.startswith("## Made-up clips\n**In short.** Little is learned.\n\n")
    assert text.partition("\n\n")[2].startswith("| run | accuracy, % | seeds |\n| --- | ---: | ---: |\n")
    assert "| counted | 15.0 ± 7.1 | [1, 2] |" in text
    assert "| FedAvg | " in text
    assert sorted(table.calls.read_text().split()) == ["1", "2"]
    document = json.loads((scale.output / "results.json").read_text())
    assert document["scale"] == "small"
    assert {"processor", "cores", "system", "python", "runtime"} == set(document["machines"][0])
    found = document["tables"]["tiny"]["runs"]
    assert [(entry["name"], entry["seed"]) for entry in found[:3]] == [
        ("FedAvg", 1),
        ("the same again", 1),
        ("counted", 1),
    ]
    assert found[0]["digest"] == found[1]["digest"] != found[2]["digest"]
    assert [entry["round"] for entry in found[0]["figures"]["rounds"]] == [1, 2]
    assert not any((scale.output / "unfinished").iterdir())
    codes = sorted({one.code for one in table.runs(scale)})
    digest = hashlib.sha256(" ".join(codes).encode()).hexdigest()[:12]
    *_, measured, machine, end = text.split("\n")
    assert re.fullmatch(rf"6 runs, [\d.]+ minutes of one process, \d\d \w+ \d{{4}}, code `{digest}`\.", measured)
    assert re.fullmatch(r"Machine: .+, \d+ cores, .+, Python 3\..+\.", machine)
    assert end == ""
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
    command = "from benchmarks.copied_code import code_of; print(code_of('benchmarks.table'))"
    shutil.copy(ROOT / "studies" / "code.py", folder / "copied_code.py")

    def digest():
        path = f"{tmp_path}:{ROOT}"
        done = subprocess.run(
            [sys.executable, "-c", command],
            env={**os.environ, "PYTHONPATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
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


def heads(document):
    """The document's headings of its parts, in order."""
    return re.findall(r"^## (.+)$", document.read_text(), re.MULTILINE)


def test_all_tables_together_make_the_document_and_the_pictures_from_nothing(named, tmp_path, scale):
    tables = {name: named[name] for name in NAMES}
    document = tmp_path / "docs" / "results.md"
    assert run_tables(tables, scale, 1, document, within_hours=24) == []
    assert heads(document) == ["All claims", "Pictures", *(f"Table {name}" for name in NAMES)]
    text = document.read_text()
    for name in NAMES:
        link = f"[Somebody 2020](#table-{name})"
        assert text.count(f"| {link} | a \\| b | 9 | 15.0 ± 7.1 | in part | so it is |") == 1
        picture = f"images/results-table-{name}.svg"
        assert f"![Accuracy over rounds: Table {name}.]({picture})" in text
        assert (document.parent / picture).read_text().lstrip().startswith("<?xml")
        assert text.count(f"| {link} | 0 | 1 | 0 | Little is learned. |") == 1
    assert f"\n| all | 0 | {len(NAMES)} | 0 |  |\n" in text
    assert json.loads((scale.output / "results.json").read_text())["tables"].keys() == set(NAMES)
    before = {path.name: path.read_bytes() for path in (tmp_path / "docs" / "images").iterdir()}
    assert run_tables(tables, scale, 1, document) == []
    assert document.read_text() == text
    assert {path.name: path.read_bytes() for path in (tmp_path / "docs" / "images").iterdir()} == before


def test_one_table_replaces_its_own_section_of_a_document_of_the_same_scale(named, tmp_path, scale):
    document = tmp_path / "results.md"
    former = "# Tables\nScale: small. 3 runs.\n\n## All claims\nformer\n\n## Made-up clips\nformer\n\n### Part\n\n"
    other = "## Other\ntext\n\n### Claims\n\n| claim | published | ours | reproduced | why |\n|---|---|---|---|---|\n"
    other += "| c | 1 | 2 | yes |  |\n| d | 3 | 1 | no | e |\n\n### Part\n| a | b | c | d | e |\n"
    document.write_text(former + other)
    table = named["tiny"]
    assert run_tables({"tiny": table}, scale, 1, document) == []
    section, text = (scale.output / "tiny.md").read_text(), document.read_text()
    assert text.endswith(f"\n\n{section}\n{other}")
    assert heads(document) == ["All claims", "Pictures", "Made-up clips", "Other"]
    summary = "| [Somebody 2020](#made-up-clips) | 0 | 1 | 0 | Little is learned. |\n"
    assert f"{summary}| [Other](#other) | 1 | 0 | 1 |  |\n| all | 1 | 1 | 1 |  |\n" in text
    assert "| [Other](#other) | d | 3 | 1 | no | e |\n" in text
    assert "former" not in text
    document.write_text(of_full := former.replace("small", "full") + other)
    assert run_tables({"tiny": table}, scale, 1, document) == []
    assert document.read_text() == of_full


def test_sections_stand_in_the_order_of_the_tables_whichever_was_written_last(bundles, tmp_path, scale):
    document = tmp_path / "results.md"
    tables = {name: TinyTable(bundles["ann3"], tmp_path, title=load_table(name).TITLE) for name in (NAMES[0], NAMES[2])}
    for name in reversed(tables):
        assert run_tables({name: tables[name]}, scale, 1, document) == []
    assert heads(document) == ["All claims", *(table.TITLE for table in tables.values())]


def test_kept_results_make_the_pictures_and_the_head_without_a_run(named, tmp_path, scale):
    document, table = tmp_path / "results.md", named["tiny"]
    assert run_tables({"tiny": table}, scale, 1, document) == []
    text, picture = document.read_text(), tmp_path / "images" / "results-made-up-clips.svg"
    drawing = picture.read_bytes()
    picture.unlink()
    redraw(document, [], {"tiny": table})
    assert "## Pictures" not in document.read_text()
    document.write_text(document.read_text().replace("15.0 ± 7.1", "16.0"))
    redraw(document, [scale.output / "results.json", scale.output / "tiny.md"], {"tiny": table})
    assert document.read_text() == text
    assert picture.read_bytes() == drawing


def test_memory_and_disk_that_are_not_there_are_refused_too(bundles, tmp_path, scale):
    runs = TinyTable(bundles["ann3"], tmp_path).runs(scale)
    found = estimate({"tiny": runs}, 2, scale.output)
    assert found.all_hours == pytest.approx(found.speed * 6 * 30 / 3600 / 2)
    found.refuse(24)
    model = ModelSection(bundles["ann3"], (bundles["ann3"],))
    own = dataclasses.replace(runs[0], work=dataclasses.replace(runs[0].work, model=model))
    state_mib = 6 * bundles["ann3"].stat().st_size / 2**20
    one, other = (estimate({"tiny": [run]}, 2, scale.output) for run in (runs[0], own))
    assert other.memory_mib - one.memory_mib == pytest.approx(state_mib)
    assert other.disk_mib - one.disk_mib == pytest.approx(2 * state_mib)
    with pytest.raises(RefusedError, match=r"needs 9,000 MiB of memory \(take fewer --processes"):
        dataclasses.replace(found, memory_mib=9000.0, free_memory_mib=8000.0).refuse(24)
    with pytest.raises(RefusedError, match=r"needs 90 MiB of disk"):
        dataclasses.replace(found, disk_mib=90.0, free_disk_mib=80.0).refuse(24)


def test_what_cannot_end_in_time_is_started_with_yes_alone(bundles, tmp_path, scale, monkeypatch, capsys):
    name, table = NAMES[0], TinyTable(bundles["ann3"], tmp_path)
    monkeypatch.setattr(command, "load_table", lambda other: table if other == name else load_table(other))
    monkeypatch.setattr(command, "ROOT", tmp_path)
    asked = ["--table", name, "--full", "--processes", "1", "--within", "1e-6", "--output", str(scale.output)]
    assert command.main(asked) == 1
    said = capsys.readouterr().err
    assert re.search(rf"^{name} +4 runs left +0\.\d\d processor hours$", said, re.MULTILINE)
    assert re.search(r"this takes about .+ hours, more than 1e-06 .*; nothing was started\..*--yes", said)
    assert not table.calls.exists()
    assert not RunFiles(scale.output).folder.exists()
    assert command.main([*asked, "--yes"]) == 0
    assert "Scale: full. " in (tmp_path / "docs" / "results.md").read_text()
    (RunFiles(scale.output).folder / f"{table.runs(scale)[0].digest}.json").unlink()
    assert command.main(asked) == 1
    assert re.search(rf"^{name} +1 runs left", capsys.readouterr().err, re.MULTILINE)


def test_data_that_is_not_there_is_named_before_anything_runs(tmp_path, scale, monkeypatch):
    monkeypatch.setenv("AURICLE_DATA", str(tmp_path))
    with pytest.raises(BenchmarkError, match=r"no gsc_v2_logmel_jpg.zip in .*AURICLE_DATA"):
        scale.data("gsc_v2_logmel_jpg.zip")


def test_a_table_that_does_not_exist_is_refused_with_those_that_do():
    command = [sys.executable, "-m", "studies", "--table", "iris"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "gudur" in result.stderr


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
