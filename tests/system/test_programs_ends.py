"""How the programs end: nobody reads their output, somebody presses Ctrl-C, a library is missing (docs/cli.md)."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.commands import OwnDesk, answer, failed
from tests.support.edge_process import wait_for
from tests.support.simulated_fleet import write_experiment
from tests.support.sounds import write_clips

ASKED = {"edge_client": "--version", "aggregator_server": "--version", "fleet_simulator": "--version"}


@pytest.mark.parametrize(("package", "asked"), [*ASKED.items(), ("model_export", "list")])
def test_a_program_whose_output_nobody_reads_says_nothing(package, asked):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", f"{package}.cli", asked]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=300)
    os.close(write)
    assert (done.stderr, done.returncode) == (b"", 141)


@pytest.fixture
def recordings(tmp_path):
    for label in ("yes", "no"):
        write_clips(tmp_path / "recordings", label, 2, seed=0)
    return tmp_path / "recordings"


@pytest.mark.slow
def test_whoever_cuts_off_what_new_prints_is_told_how_to_make_another_link(tmp_path, recordings):
    line = f'"{sys.executable}" -m aggregator_server.cli new --from "{recordings}" --data fleet | head -n 0'
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    bash = ["bash", "-o", "pipefail", "-c", line]
    cut = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (cut.returncode, cut.stdout) == (141, "")
    assert "make another: auricle-aggregator invite --devices 10 --data fleet)" in cut.stderr
    listed = answer("invitations", "--data", tmp_path / "fleet", token=None)
    assert [(item["invitation_id"], item["used"]) for item in listed] == [(1, 0)]


@pytest.mark.slow
def test_a_fleet_that_cannot_be_started_is_explained_and_nothing_is_left(tmp_path):
    desk = OwnDesk(tmp_path)
    failed(desk.type("auricle-aggregator new --from nowhere"), "no public set", "nowhere")
    write_clips(desk.folder / "recordings", "yes", 2, seed=0)
    spoiled = desk.type("auricle-aggregator new --from recordings --bundle cnn1 --devices 0")
    failed(spoiled, "devices must be from 1")
    assert [path.name for path in desk.folder.iterdir()] == ["recordings"]  # the data folder is gone again
    (desk.folder / "notes").mkdir()
    (desk.folder / "notes" / "a.txt").write_text("")
    for line, *words in (
        ("auricle-aggregator new --from recordings --data notes", "--data notes", "not empty"),
        ("auricle-aggregator new --from recordings --bundle base9", "'base9'", "ready: "),
        ("auricle-aggregator new --from recordings --port 0", "--port 0"),
        ("auricle-aggregator new --from recordings --host 0.0.0.0", "--tls auto"),
    ):
        failed(desk.type(line), *words)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["notes", "recordings"]


class Program:
    """A program of the project that runs in a folder."""

    def __init__(self, folder, *words):
        self.output = folder / "output"
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder)}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
            )

    def interrupted(self, at_work, what):
        """Press Ctrl-C once it is at its work; return its exit status and what it said."""
        try:
            wait_for(lambda: at_work() or self.process.poll() is not None, what=what)
            assert self.process.poll() is None, self.process.stderr.read()
            self.process.send_signal(signal.SIGINT)
            _, said = self.process.communicate(timeout=600)
        finally:
            self.process.kill()
        assert "Traceback" not in said
        return self.process.returncode, said

    def sleeps(self):
        """Whether it waits by now: a signal just before a read begins would be seen only after the read."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def children(self):
        return Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()


def has_reader(fifo):
    """Whether a program waits for what is written into a pipe with a name."""
    try:
        os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)  # stays open, or the program would go on
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("edge_client.cli", "clips", "--config"),
        ("aggregator_server.cli", "publish", "--url", "http://127.0.0.1:9", "--token", "a-token-of-the-tests"),
        ("fleet_simulator.cli", "run"),
        ("model_export.cli", "sounds", "--speech", "none", "-o", "none.frontend", "--weights"),
    ],
    ids=lambda command: command[0],
)
def test_a_program_that_is_interrupted_ends_with_130(tmp_path, command):
    waits = tmp_path / "file"
    os.mkfifo(waits)
    program = Program(tmp_path, *command, waits)
    status, said = program.interrupted(lambda: has_reader(waits) and program.sleeps(), "the program reads the file")
    assert (status, program.output.read_text()) == (130, ""), said


@pytest.mark.slow
def test_new_that_ctrl_c_stops_leaves_no_fleet(tmp_path, recordings):
    new = Program(tmp_path, "aggregator_server.cli", "new", "--from", recordings, "--data", "fleet")
    assert new.interrupted(new.children, "features are computed") == (130, "")
    assert not (tmp_path / "fleet").exists()


@pytest.mark.slow
def test_a_simulation_that_ctrl_c_stops_says_that_it_can_go_on(tmp_path, bundles):
    experiment = write_experiment(tmp_path / "experiment.toml", bundles["cnn1"], rounds={"count": 100_000})
    run = Program(tmp_path, "fleet_simulator.cli", "run", experiment, "--output", "results", "--workers", "0")
    status, said = run.interrupted((tmp_path / "results" / "state.safetensors").exists, "a round")
    assert (status, "the same command goes on from there" in said) == (130, True), said


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
        ("auricle-edge", "edge_client", "ui", "uvicorn", ["try"]),
        ("auricle-aggregator", "aggregator_server", "edge,server", "soundfile", ["try"]),
        ("auricle-sim", "fleet_simulator", "sim", "sqlalchemy", ["run", "{folder}/experiment.toml"]),
        pytest.param(
            "auricle-export",
            "model_export",
            "export",
            "tensorflow",
            ["build", "cnn1", "-o", "{folder}/a.auricle"],
            marks=pytest.mark.slow,
        ),
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
