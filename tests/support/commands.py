"""``auricle-aggregator`` as a process of its own, and a desk at which somebody types commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.first_round import Desk
from tests.support.aggregator_process import ADMIN
from tests.support.checkout import ROOT

PROGRAMS = {"auricle-aggregator": "aggregator_server.cli", "auricle-edge": "edge_client.cli"}


class OwnDesk(Desk):
    """A desk with the programs of this checkout, and no settings of the tests' environment."""

    def __init__(self, folder: Path):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AURICLE_")}
        environment["PYTHONPATH"] = str(ROOT)
        super().__init__(folder, lambda name: [sys.executable, "-m", PROGRAMS[name]], environment)


def start(*arguments, token=ADMIN, **streams):
    """Start a command; its output is text, and comes through pipes where no other streams are given."""
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
    if token is not None:
        environment["AURICLE_ADMIN_TOKEN"] = token
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen(
        [sys.executable, "-m", "aggregator_server.cli", *map(str, arguments)], text=True, env=environment, **streams
    )


def command(*arguments, **options):
    """Run a command to its end."""
    process = start(*arguments, **options)
    output, errors = process.communicate(timeout=300)
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def printed(*arguments, **options):
    """Return what a command prints; it must succeed."""
    result = command(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def answer(*arguments, **options):
    """Return what a command prints with ``--json``."""
    return json.loads(printed(*arguments, "--json", **options))


def failed(result, *words):
    """Check that a command failed with an explanation that has these words."""
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    missing = [word for word in words if word not in result.stderr]
    assert not missing, result.stderr
