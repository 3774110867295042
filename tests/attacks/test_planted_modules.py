"""A stranger's modules in the current folder, which others may write, as /tmp: no program of Auricle imports one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.aggregator_process import TOKENS, Aggregator, FakeDevice, Fleet
from tests.support.edge_process import BRISK, EdgeDaemon, wait_for
from tests.support.sounds import write_clips

PROGRAMS = Path(sys.executable).parent
NAMES = ("soundfile", "tomllib", "pickle", "tempfile", "socket", "edge_client", "aggregator_server")


@pytest.fixture
def shared(tmp_path):
    """A folder with modules that say that they ran, and fail; nothing did at the end."""
    folder, ran = tmp_path / "shared", tmp_path / "ran"
    folder.mkdir()
    for name in NAMES:
        said = f"open({str(ran)!r}, 'a').write({name!r} + chr(10))\nraise ImportError('planted')\n"
        (folder / f"{name}.py").write_text(said)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    yield folder, environment
    assert not ran.exists(), ran.read_text()


@pytest.mark.slow
def test_recorder_and_training_of_a_device_import_nothing_from_the_current_folder(tmp_path, shared):
    folder, environment = shared
    write_clips(tmp_path / "played", "yes", 2, 2)
    daemon = EdgeDaemon(tmp_path / "device", find_bundle("base_int8"), f'[microphone]\nfile = "../played"\n{BRISK}')
    for label in ("yes", "no"):
        write_clips(daemon.state / "clips", label, 4, 1)
    command = [PROGRAMS / "auricle-edge", "run", "--config", daemon.config]
    with (daemon.folder / "log").open("w") as log, (daemon.folder / "events").open("w") as out:
        given = environment | {"RUNTIME_DIRECTORY": str(daemon.runtime)}
        daemon.process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=log, env=given)
    with daemon:
        wait_for(lambda: {"yes", "no"} <= daemon.labels(), what="that it was taught")
        wait_for(lambda: (daemon.status()["listening"] or {}).get("frames"), what="some sound")
        assert daemon.end() == 0


def test_the_process_that_computes_a_round_imports_nothing_from_the_current_folder(tmp_path, shared):
    folder, environment = shared
    server = Aggregator(tmp_path / "data")
    command = [PROGRAMS / "auricle-aggregator", "run", "--create", "--port", "0", "--data", server.data]
    with server:
        server.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment | TOKENS
        )
        server.url = json.loads(server.process.stdout.readline())["url"]
        fleet = Fleet(server, [FakeDevice(number, ("c0", "c1")) for number in (1, 2)]).ready()
        assert fleet.run_round()["summary"]["state"] == "done"
        assert server.stop() == 0


@pytest.mark.slow
def test_what_measures_a_bundle_and_what_simulates_a_fleet_import_nothing_from_the_current_folder(shared):
    folder, environment = shared
    changes = [word for change in ("rounds=1", "fleet.devices=4", "data.clips=400") for word in ("--set", change)]
    for command in (
        ["auricle-export", "measure", find_bundle("base"), "--samples", "20"],
        ["auricle-sim", "new", "fleet.toml"],
        ["auricle-sim", "run", "fleet.toml", *changes, "--workers", "2"],
    ):
        made = [PROGRAMS / command[0], *command[1:]]
        done = subprocess.run(made, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
