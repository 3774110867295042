"""The studies' command: whatever kills `make experiments`, it goes on, and the pages come from the runs."""

import json
import re
import shutil

import pytest

from benchmarks.command import BenchmarkError
from studies import __main__ as command
from studies.__main__ import run_studies
from studies.fleets import Scale, simulated
from studies.run import LEARNING, Call, Run, RunFiles, code_of
from studies.study import NAMES, load_study
from tests.support.checkout import ROOT
from tests.support.tiny_study import NoTraining, TinyStudy, tiny_experiment


@pytest.fixture
def scale(tmp_path):
    return Scale(False, tmp_path / "out")


@pytest.fixture
def home(tmp_path):
    """A folder of a study, and the page that a person wrote."""
    blocks = (f"<!-- {what} -->\n<!-- end -->" for what in ("table found", "picture rounds", "about"))
    for folder in (tmp_path / "home" / "tiny", tmp_path / "docs" / "studies"):
        folder.mkdir(parents=True)
    (tmp_path / "docs" / "studies" / "tiny.md").write_text("# Made-up clips\nIt has 15.0 %.\n\n" + "\n".join(blocks))
    return tmp_path / "home"


def run(study, scale, home, processes=2):
    return run_studies({"tiny": study}, scale, processes, home, home.parent / "docs")


def test_results_and_page_are_made_from_nothing_of_runs_that_are_done_once_each(bundles, tmp_path, scale, home, capsys):
    study = TinyStudy(bundles["ann3"], tmp_path)
    assert run(study, scale, home) == []
    assert sorted(study.calls.read_text().split()) == ["1", "2"]
    results = json.loads((home / "tiny" / "results.json").read_text())
    assert (results["study"], results["scale"]) == ("tiny", "small")
    assert set(results["measured"]) == {"date", "code", "machine", "runs", "minutes", "seeds"}
    assert (results["measured"]["runs"], results["measured"]["seeds"]) == (6, [1, 2])
    assert re.fullmatch(r".+, \d+ cores, .+, Python 3\..+", results["measured"]["machine"])
    found = results["tables"]["found"]["rows"]
    assert found[0] == ["counted", {"mean": 15.0, "deviation": 7.071, "values": {"1": 10.0, "2": 20.0}}]
    assert results["pictures"]["rounds"]["series"][0]["x"] == [1, 2]
    page = (tmp_path / "docs" / "studies" / "tiny.md").read_text()
    assert "# Made-up clips\nIt has 15.0 %." in page
    assert "| counted | 15.0 ± 7.1 |" in page
    assert (tmp_path / "docs" / "images" / "results-tiny-rounds.svg").is_file()
    assert not any((scale.output / "unfinished").iterdir())
    said = capsys.readouterr()
    assert "4/4  tiny: " in said.err
    assert "not found again" not in said.out


def test_what_is_on_the_disk_is_not_run_again_and_tables_by_hand_stay(bundles, tmp_path, scale, home, capsys):
    study = TinyStudy(bundles["ann3"], tmp_path)
    run(study, scale, home)
    before = json.loads((home / "tiny" / "results.json").read_text())
    by_hand = {"title": "Published.", "columns": [""], "rows": [["a"]]}
    before["tables"]["published"] = by_hand
    (home / "tiny" / "results.json").write_text(json.dumps(before))
    (tmp_path / "docs" / "studies" / "tiny.md").write_text("It had 77.7 %.\n")
    (RunFiles(scale.output).folder / f"{study.runs(scale)[2].digest}.json").unlink()
    run(study, scale, home, processes=1)
    assert sorted(study.calls.read_text().split()) == ["1", "1", "2"]
    assert json.loads((home / "tiny" / "results.json").read_text())["tables"] == before["tables"]
    assert "docs/studies/tiny.md has figures that were not found again: 77.7 %" in capsys.readouterr().out


def test_settings_seeds_and_bundles_make_a_run_another_one(bundles, tmp_path):
    def digest(seed=1, **arguments):
        return Run("a", seed, Call(run, {"bundle": bundles["ann3"], "rate": 0.1} | arguments)).digest

    copy = tmp_path / "copy.auricle"
    shutil.copy(bundles["ann3"], copy)
    assert digest() == digest(bundle=copy)
    assert len({digest(), digest(seed=2), digest(rate=0.2), digest(bundle=bundles["cnn1"])}) == 4
    table = TinyStudy(bundles["ann3"], tmp_path)
    longer = TinyStudy(bundles["ann3"], tmp_path, rounds=3)
    assert table.runs(None)[0].digest != longer.runs(None)[0].digest


def test_a_study_s_own_modules_make_a_run_another_one(tmp_path, monkeypatch):
    folder = tmp_path / "studies_of_tests"
    folder.mkdir()
    (folder / "used.py").write_text("A = 1\n")
    (folder / "unused.py").write_text("A = 1\n")
    (folder / "runs.py").write_text("import json\nfrom studies_of_tests.used import A\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("studies.run._FOLLOWED", ("studies_of_tests",))

    def digest():
        code_of.cache_clear()
        return code_of("studies_of_tests.runs")

    first = digest()
    (folder / "unused.py").write_text("A = 2\n")
    (folder / "used.py").write_text('"""Text."""\n\nA = (\n    1  # a comment\n)\n')
    assert digest() == first
    (folder / "used.py").write_text("A = 2\n")
    assert digest() != first
    code_of.cache_clear()


def test_what_devices_and_server_learn_by_counts_and_what_they_show_does_not():
    assert [name for name in LEARNING if not (ROOT / name).exists()] == []
    assert not [name for name in LEARNING if "web" in name]


def test_a_run_that_fails_is_named_and_the_others_are_kept(bundles, tmp_path, scale, home):
    study = TinyStudy(bundles["ann3"], tmp_path)
    (tmp_path / "broken").touch()
    problems = run(study, scale, home)
    assert sorted(problem.split(":")[0] for problem in problems) == ["counted, seed 1", "counted, seed 2"]
    assert "ValueError: seed 1 is broken" in "".join(problems)
    assert not (home / "tiny" / "results.json").exists()
    (tmp_path / "broken").unlink()
    assert run(study, scale, home) == []
    assert (home / "tiny" / "results.json").exists()


def test_the_command_says_what_is_left_and_writes_the_page(bundles, tmp_path, scale, home, monkeypatch, capsys):
    study = TinyStudy(bundles["ann3"], tmp_path)
    (home / NAMES[0]).mkdir()
    shutil.copy(tmp_path / "docs" / "studies" / "tiny.md", tmp_path / "docs" / "studies" / f"{NAMES[0]}.md")
    monkeypatch.setattr(command, "load_study", lambda name: study)
    monkeypatch.setattr(command, "HOME", home)
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    asked = ["--table", NAMES[0], "--full", "--processes", "1", "--output", str(scale.output)]
    assert command.main(asked) == 0
    said = capsys.readouterr().err
    assert re.search(rf"^{NAMES[0]} +4 runs left +0\.\d\d processor hours$", said, re.MULTILINE)
    assert ", scale full, " in (tmp_path / "docs" / "studies" / f"{NAMES[0]}.md").read_text()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "kws_ui"])  # which reads its recordings for it
def test_a_study_asks_for_every_run_once_and_for_more_at_full_scale(name, tmp_path):
    small, full = (load_study(name).runs(NoTraining(whole, tmp_path)) for whole in (False, True))
    assert len({(run.name, run.seed) for run in small}) == len(small)
    assert sum(run.cost_s for run in full) > 1.9 * sum(run.cost_s for run in small)


def test_data_and_studies_that_are_not_there_are_named_before_anything_runs(tmp_path, scale, monkeypatch, capsys):
    monkeypatch.setenv("AURICLE_DATA", str(tmp_path))
    with pytest.raises(BenchmarkError, match=r"no gsc_v2_logmel_jpg.zip in .*AURICLE_DATA"):
        scale.data("gsc_v2_logmel_jpg.zip")
    with pytest.raises(SystemExit):
        command.main(["--table", "iris"])
    assert "gudur" in capsys.readouterr().err


def test_a_training_that_diverges_is_a_result(bundles, tmp_path):
    local = {"epochs": 200, "learning_rate": 10.0}
    experiment = tiny_experiment(bundles["ann3"], noise=1e6, count=3, local=local)
    figures = simulated(experiment, tmp_path / "run")
    assert "diverged" in figures["diverged"]
    assert len(figures["rounds"]) < 3
    assert not (tmp_path / "run").exists()
