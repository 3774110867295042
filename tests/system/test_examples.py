"""The examples run as they are shown: the notebooks' cells, and the script on a folder of recordings."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, run_python
from tests.support.sounds import write_clips

EXAMPLES = ROOT / "examples"
NOTEBOOK = json.loads((EXAMPLES / "simulation.ipynb").read_text())


def test_the_notebook_is_one_and_carries_no_output():
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in NOTEBOOK["cells"])


@pytest.mark.slow
def test_the_notebook_shows_that_its_rule_withstands_attackers(tmp_path):
    code = "\n".join("".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code")
    (tmp_path / "cells.py").write_text(code + "\nprint('figures:', len(plt.get_fignums()))\n")
    environment = {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT), "AURICLE_RECORDINGS": "", "TMPDIR": str(tmp_path)}
    said = run_python(str(tmp_path / "cells.py"), **environment)
    honest = float(re.search(r"honest devices: (\S+)", said)[1])
    accuracy = {
        name: float(mean) for name, mean in re.findall(r"^(middle|weighted_mean): (\S+) ± ", said, re.MULTILINE)
    }
    assert honest > 0.6
    assert accuracy["middle"] > accuracy["weighted_mean"] + 0.2
    assert "figures: 1" in said


@pytest.fixture
def recordings(tmp_path):
    for label in ("yes", "no", "stop"):
        write_clips(tmp_path / "sounds", label, 16, seed=1)
    return tmp_path / "sounds"


def test_the_page_on_python_runs_as_printed(recordings, tmp_path, monkeypatch):
    """Top to bottom, on a folder of recordings and one that is unknown."""
    monkeypatch.chdir(tmp_path)
    recordings.rename("recordings")
    Path("unknown.wav").write_bytes(next(Path("recordings/yes").iterdir()).read_bytes())
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL):
        exec(block, names)
    assert names["model"].predict(["unknown.wav"]) == ["yes"]
    assert names["fleet"]["head/bias"].shape == (3,)
    assert names["found"].scores.shape == (4, 3)
    assert [entry["round"] for entry in names["rounds"]] == [1, 2, 3]


def test_the_script_trains_on_a_folder_and_keeps_what_it_learned(recordings, tmp_path):
    script, kept = EXAMPLES / "own_recordings.py", tmp_path / "words.safetensors"
    said = run_python(str(script), str(recordings), "--bundle", "cnn2", "--save", str(kept), PYTHONPATH=str(ROOT))
    assert float(re.search(r"12 clips, of (\S+) %", said)[1]) > 80
    assert all(f"{label}: " in said for label in ("yes", "no", "stop"))
    assert kept.is_file()


def test_the_script_says_what_is_wrong_with_a_folder(tmp_path):
    command = [sys.executable, EXAMPLES / "own_recordings.py", tmp_path]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "0 clips" in done.stdout
    assert "Traceback" not in done.stderr
