"""How the programs end that Ctrl-C stops, or whose output nobody reads to the end (docs/cli.md, "Exit statuses")."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet_protocol.addresses import InvitationLink
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

EXPERIMENT = """\
[data]
source = "synthetic"
classes = 3
[fleet]
devices = 2
split = "iid"
[model]
bundle = "cnn1"
[rounds]
count = 100000
strategy = "fedavg"
"""


@pytest.fixture
def recordings(tmp_path):
    for label in ("yes", "no"):
        write_clips(tmp_path / "recordings", label, 2, seed=0)
    return tmp_path / "recordings"


def started(folder, *words, **streams):
    """A program of the project that runs in a folder."""
    program = [sys.executable, "-m", *map(str, words)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen(program, cwd=folder, env=environment, text=True, **streams)


def interrupted(process, at_work, what):
    """Press Ctrl-C once a program is at its work; return its exit status and what it said."""
    try:
        wait_for(lambda: at_work() or process.poll() is not None, what=what)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, said


def children(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def test_new_that_ctrl_c_stops_leaves_no_fleet(tmp_path, recordings):
    new = started(tmp_path, "aggregator_server.cli", "new", "--from", recordings, "--data", "fleet")
    assert interrupted(new, lambda: children(new), "features are computed") == (130, "")
    assert not (tmp_path / "fleet").exists()


def test_a_simulation_that_ctrl_c_stops_says_that_it_can_go_on(tmp_path):
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    run = started(tmp_path, "fleet_simulator.cli", "run", "experiment.toml", "--output", "results", "--workers", "0")
    state = tmp_path / "results" / "state.safetensors"
    status, said = interrupted(run, state.exists, "a round")
    assert (status, "the same command goes on from there" in said) == (130, True), said


def test_a_server_that_ctrl_c_stops_has_done_its_work(tmp_path):
    (tmp_path / "log").touch()
    with (tmp_path / "log").open("w") as log:
        run = started(
            tmp_path, "aggregator_server.cli", "run", "--create", "--data", "fleet", "--port", "0", stdout=log
        )
    status, said = interrupted(run, lambda: '"url"' in (tmp_path / "log").read_text(), "the server")
    assert (status, "Traceback" in said) == (0, False), said


def test_whoever_cuts_off_what_new_prints_gets_another_link(tmp_path, recordings):
    line = '"$0" -m aggregator_server.cli new --from "$1" --data fleet | head -n 0'
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    bash = ["bash", "-o", "pipefail", "-c", line, sys.executable, str(recordings)]
    cut = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (cut.returncode, cut.stdout) == (141, "")
    assert "another one in its place: auricle-aggregator invite --again 1 --data fleet)" in cut.stderr
    listing = started(tmp_path, "aggregator_server.cli", "invitations", "--data", "fleet", "--json", stdout=-1)
    listed = json.loads(listing.communicate(timeout=600)[0])
    assert [(item["invitation_id"], item["used"]) for item in listed] == [(1, 0)]
    again = started(tmp_path, "aggregator_server.cli", "invite", "--again", "1", "--data", "fleet", stdout=-1)
    link = InvitationLink.parse(again.communicate(timeout=600)[0].splitlines()[0])
    assert link.token.startswith("aur_join_")


def test_a_listing_of_the_device_that_nobody_reads_says_nothing(tmp_path):
    config = tmp_path / "edge.toml"
    config.write_text('[device]\nname = "a"\nstate = "state"\n[model]\nbundle = "cnn1"\n')
    line = '"$0" -m edge_client.cli clips | head -n 0'
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    bash = ["bash", "-o", "pipefail", "-c", line, sys.executable]
    cut = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (cut.returncode, cut.stdout, cut.stderr) == (141, "", "")
