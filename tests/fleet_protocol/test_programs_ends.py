"""How the programs end where nobody reads their output, or where somebody presses Ctrl-C."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for


@pytest.mark.parametrize(
    "command",
    [
        ("edge_client.cli", "--version"),
        ("aggregator_server.cli", "--version"),
        ("fleet_simulator.cli", "--version"),
        ("model_export.cli", "list"),
    ],
)
def test_a_program_whose_output_nobody_reads_says_nothing(command):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", *command], stdout=write, stderr=subprocess.PIPE, timeout=300)
    os.close(write)
    assert (done.stderr, done.returncode) == (b"", 141)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("edge_client.cli", "clips", "--config"),
        ("aggregator_server.cli", "publish", "--url", "http://127.0.0.1:9", "--token", "a-token-of-the-tests"),
        ("fleet_simulator.cli", "run"),
        ("model_export.cli", "build", "ann3", "-o", "bundle.auricle", "--weights"),
    ],
    ids=lambda command: command[0],
)
def test_a_program_that_is_interrupted_ends_with_130(tmp_path, command):
    waits = tmp_path / "file"
    os.mkfifo(waits)
    program = subprocess.Popen(
        [sys.executable, "-m", *command, str(waits)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        held = wait_for(lambda: reader_of(waits, program), what="the program reads the file")
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=600)
        os.close(held)
    finally:
        program.kill()
    assert (program.returncode, output) == (130, ""), errors
    assert "Traceback" not in errors


def reader_of(fifo, program):
    """A descriptor to write into a pipe with a name, once a program reads it."""
    assert program.poll() is None, program.stderr.read()
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nobody reads it yet
            raise
        return None
