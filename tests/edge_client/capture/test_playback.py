"""Cues: an output that plays nothing keeps nobody from recording."""

import os
from pathlib import Path

from edge_client.capture import playback
from edge_client.capture.playback import Cues
from tests.support.edge_process import wait_for


def put_aplay(folder, monkeypatch, script):
    monkeypatch.setattr(playback, "_PATIENCE_S", 180.0)  # a busy machine takes long to start a process
    (folder / "aplay").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "aplay").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def ended(pid) -> bool:
    """Whether a process has ended, whoever takes notice of that."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_an_output_that_never_ends_is_given_up_and_not_tried_again(tmp_path, monkeypatch):
    """As `aplay` waits for a sound card that another program has, and takes no notice of SIGTERM."""
    started, patience_s = tmp_path / "started", 0.5
    put_aplay(tmp_path, monkeypatch, f"trap '' TERM; echo $$ >> {started}; exec sleep 600")
    started.touch()
    while not started.read_text():  # a busy machine takes longer to start a process
        monkeypatch.setattr(playback, "_PATIENCE_S", patience_s)
        cues, patience_s = Cues(), 2 * patience_s
        cues.before()
        assert "does another program use the sound card?" in cues.problem
    cues.after(kept=True)
    (pid,) = started.read_text().split()
    wait_for(lambda: ended(pid), what="the end of aplay")


def test_an_output_that_fails_says_why(tmp_path, monkeypatch):
    put_aplay(tmp_path, monkeypatch, "cat > /dev/null; echo 'audio open error: Device or resource busy' >&2; exit 1")
    cues = Cues()
    cues.before()
    assert cues.problem == "audio open error: Device or resource busy"


def test_what_can_be_played_is_no_problem(tmp_path, monkeypatch):
    put_aplay(tmp_path, monkeypatch, f"cat > {tmp_path}/sound")
    cues = Cues()
    cues.before()
    assert cues.problem == ""
    assert (tmp_path / "sound").read_bytes().startswith(b"RIFF")
