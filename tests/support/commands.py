"""``auricle-aggregator``: a command in this process or in one of its own; a desk at which somebody types commands."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from aggregator_server.cli import main
from tests.support.aggregator_process import ADMIN, TOKENS
from tests.support.checkout import ROOT
from tests.support.desk import Desk

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


def command(*arguments, token=ADMIN, **environment):
    """Run a command to its end, in this process."""
    output, errors = io.StringIO(), io.StringIO()
    given = environment if token is None else {"AURICLE_ADMIN_TOKEN": token} | environment
    with patch.dict(os.environ, given), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        for name in TOKENS.keys() - given.keys():
            os.environ.pop(name, None)
        try:
            status = main([*map(str, arguments)])
        except SystemExit as refused:  # of a command line that is none
            status = refused.code
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())


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
