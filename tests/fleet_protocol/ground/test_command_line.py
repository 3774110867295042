"""Programs begin whatever became of their standard streams, and lose no label in an encoding that lacks it."""

import json
import os
import subprocess
import sys

import pytest

SAYS = """
import sys
from fleet_protocol.ground.command_line import print_json, program
def main(_):
    assert sys.stderr.fileno() == 2 and sys.stdin.read() == ""
    with open(sys.argv[1], "w") as file:
        assert file.fileno() > 2
    print("\u94c3 \U0001f514")
    print_json({"label": "\u94c3\U0001f514"})
    return 7
sys.exit(program(main)())
"""


def ended(folder, closed="", **environment):
    command = ["sh", "-c", f'exec "$@" </dev/null {closed}', "-", sys.executable, "-c", SAYS, str(folder / "file")]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False)


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_a_program_whose_standard_streams_are_closed_runs(tmp_path, closed):
    done = ended(tmp_path, closed)
    assert (done.returncode, done.stderr) == (7, b"")
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "utf-8"])
def test_what_an_encoding_lacks_is_escaped(tmp_path, encoding):
    done = ended(tmp_path, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (7, b"")
    line, document = done.stdout.decode(encoding).splitlines()
    assert line == ("\u94c3 \U0001f514" if encoding == "utf-8" else r"\u94c3 \U0001f514")
    assert json.loads(document) == {"label": "\u94c3\U0001f514"}
