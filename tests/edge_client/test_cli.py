"""What all programs' command lines have in common, and how a device's processes write their log."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT, run_module

PROGRAMS = {
    "auricle-edge": "edge_client.cli",
    "auricle-aggregator": "aggregator_server.cli",
    "auricle-sim": "fleet_simulator.cli",
    "auricle-export": "model_export.cli",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_tells_its_version_and_completes_its_commands(program, tmp_path):
    told = run_module(PROGRAMS[program], "--version")
    assert told.returncode == 0, told.stderr
    runtime = r", TensorFlow Lite 2\.17\.1 \(pymicro-wakeword 2\.5\.0, SHA-256 [0-9a-f]{12}\)"
    assert re.fullmatch(
        rf"{program} (\d+\.\d+\.\d+|unknown){runtime if program == 'auricle-edge' else ''}\n", told.stdout
    )
    line, found = f"{program} --ver", tmp_path / "completions"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    result = run_module(
        PROGRAMS[program],
        env={**os.environ, **asked, "_ARGCOMPLETE_STDOUT_FILENAME": str(found), "_ARGCOMPLETE_IFS": " "},
    )
    assert found.read_text().strip() == "--version", result.stderr
    assert "PYTHON_ARGCOMPLETE_OK" in (ROOT / (PROGRAMS[program].replace(".", "/") + ".py")).read_text()[:1024]


def test_log_lines_have_the_time_but_in_the_journal_of_systemd(tmp_path):
    code = "import logging; from edge_client.logs import set_up_log; set_up_log(); logging.warning('hello')"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARNING hello\n", log_of(tmp_path, code, ""))
    stat = (tmp_path / "log").stat()
    journal = f"{stat.st_dev}:{stat.st_ino}"
    assert log_of(tmp_path, code, journal) == "WARNING hello\n"
    assert "20" in log_of(tmp_path, code, "1:2")  # the journal of a desktop session, and not this process's output


def log_of(folder, code, journal):
    with (folder / "log").open("w") as log:
        environment = {**os.environ, "JOURNAL_STREAM": journal}
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stderr=log, env=environment, check=True, timeout=180)
    return (folder / "log").read_text()
