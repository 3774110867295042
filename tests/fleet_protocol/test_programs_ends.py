"""How the programs end: nobody reads their output, somebody presses Ctrl-C, or a library is not installed."""

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


# Stands for an environment without a library: an import finds nothing.
WITHOUT = """
import sys
sys.modules[{library!r}] = None
sys.argv = [{program!r}, *{arguments!r}]
from {package}.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("program", "package", "extra", "library", "arguments"),
    [
        ("auricle-aggregator", "aggregator_server", "server", "sqlalchemy", ["run", "--data", "{folder}"]),
        ("auricle-aggregator", "aggregator_server", "server", "fastapi", ["run", "--data", "{folder}"]),
        ("auricle-sim", "fleet_simulator", "sim", "sqlalchemy", ["run", "{folder}/experiment.toml"]),
        ("auricle-export", "model_export", "export", "tensorflow", ["build", "cnn1", "-o", "{folder}/a.auricle"]),
    ],
)
def test_a_program_without_its_libraries_names_the_extra(tmp_path, program, package, extra, library, arguments):
    (tmp_path / "experiment.toml").write_text("")
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    code = WITHOUT.format(library=library, program=program, package=package, arguments=filled)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=180)
    assert result.returncode == 1
    needs = f"needs: pip install 'auricle[{extra}]'"
    assert result.stderr == f"{program}: the library {library} is not installed; {needs}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiment.toml"]


@pytest.mark.parametrize("package", ["aggregator_server", "fleet_simulator", "model_export"])
def test_help_needs_no_extra(package):
    block = "import sys; sys.modules.update(dict.fromkeys(['fastapi', 'sqlalchemy', 'tensorflow', 'httpx']))"
    code = f"{block}; from {package}.cli import main; main(['--help'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=180)
    assert result.returncode == 0, result.stderr
    assert "COMMAND" in result.stdout or "build" in result.stdout
