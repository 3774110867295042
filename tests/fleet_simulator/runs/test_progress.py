"""What a run shows: a line a round where nobody looks on, a bar on a terminal."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest

from fleet_simulator.runs.progress import Lines, progress_on
from tests.support.checkout import ROOT
from tests.support.simulated_fleet import write_experiment


def test_a_line_says_accuracy_speed_and_time_left():
    lines = Lines(io.StringIO())
    lines.begin(101, 0)
    first = lines.describe({"round": 1, "devices": 50, "loss": 1.25, "accuracy": 0.5}, 2.0)
    assert first == "round 1/101  accuracy  50.0 %  loss 1.250  25 devices/s  left 0:03:20"
    assert "accuracy  50.0 %" in lines.describe({"round": 2, "devices": 50, "loss": 1.0}, 2.0)  # as last measured


def test_lines_are_few_and_the_last_one_is_there():
    out = io.StringIO()
    lines = progress_on(out)
    lines.begin(1000, 3)
    for number in range(4, 1001):
        lines.devices_done(5, 10)
        lines.round_done({"round": number, "devices": 10, "loss": 1.0}, 0.001)
    shown = out.getvalue().splitlines()
    assert shown[0] == "going on after round 3 of 1000"
    assert shown[1].startswith("round 4/1000")
    assert shown[-1].startswith("round 1000/1000")
    assert len(shown) < 10


def test_a_terminal_shows_a_bar_that_ends_full(tmp_path, bundles):
    pytest.importorskip("rich")
    path = write_experiment(tmp_path / "e.toml", bundles["ann3"])
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "fleet_simulator.cli", "run", str(path), "--workers", "0"]
    done = subprocess.run(
        command, cwd=ROOT, stderr=theirs, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "160"}
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so at the end of a terminal
            break
        shown += part
    os.close(terminal)
    assert done.returncode == 0
    assert re.search(r"3 rounds, accuracy [\d.]+ %; results in", done.stdout)
    assert "━" in shown.decode()
    assert re.search(r"round 3/3 .*accuracy +[\d.]+ %.*devices/s", shown.decode())
