"""How the programs end where nobody reads their output."""

import os
import subprocess
import sys

import pytest


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
