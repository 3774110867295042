"""``auricle-aggregator`` as a process of its own."""

import json
import subprocess
import sys

from tests.support.aggregator_process import ADMIN
from tests.support.checkout import ROOT


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
