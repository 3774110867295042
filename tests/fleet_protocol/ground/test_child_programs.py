"""What a command starts beside itself ends with it: at an error, at Ctrl-C, and when one of them ends."""

import os
import signal
import subprocess
import sys

import pytest

from fleet_protocol.ground.child_programs import ChildError, children
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for

# Modules of the tests' own: one that says its process and runs on, one that ends with a reason.
STAYS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
FAILS = "import sys; print('no such place', file=sys.stderr); sys.exit(3)"
DEAF = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True)\n"
DEAF += "time.sleep(600)"
COMMAND = """
import sys
from pathlib import Path
from fleet_protocol.ground.child_programs import children
def say(line):  # in one write: both say theirs from threads of their own
    print(line + "\\n", end="", flush=True)
with children(Path(sys.argv[1])) as programs:
    programs.start("one", "stays", tell=say)
    programs.start("other", "stays", tell=say)
    programs.wait(lambda: False)
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, text in {"stays": STAYS, "fails": FAILS, "deaf": DEAF, "command": COMMAND}.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    return tmp_path


def test_programs_end_with_a_command_that_was_killed(modules, tmp_path):
    command = subprocess.Popen(
        [sys.executable, "-m", "command", str(tmp_path)], cwd=modules, stdout=subprocess.PIPE, text=True
    )
    with command:
        processes = [int(command.stdout.readline()) for _ in range(2)]
        command.kill()
        for process in processes:
            wait_for(lambda process=process: gone(process), what="the end of what the command had started")


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def run(folder, *names, limit_s=600.0):
    """Start modules one after the other, each once the one before has said its process; return what they said."""
    said = []
    with pytest.raises(ChildError) as error, children(folder) as programs:
        start_all(programs, names, said, limit_s)
    return [int(line) for line in said], str(error.value)


def start_all(programs, names, said, limit_s):
    for number, name in enumerate(names):
        programs.start(name, name, tell=said.append)
        programs.wait(lambda number=number: len(said) > number)
    programs.wait(lambda: False, limit_s)


def test_one_that_ends_is_named_with_its_last_words_and_the_others_end(modules):
    (process,), error = run(modules, "stays", "fails")
    assert error == "fails ended with status 3: no such place"
    assert gone(process)


def test_one_that_does_not_listen_is_killed_and_one_that_is_never_ready_is_said(modules, monkeypatch):
    monkeypatch.setattr("fleet_protocol.ground.child_programs._GRACE_S", 0.1)
    (process,), error = run(modules, "deaf", limit_s=0.2)
    assert error == "deaf: not ready after 0 s"
    assert gone(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_even_if_it_comes_twice(modules, number):
    command = subprocess.Popen(
        [sys.executable, "command.py", "."],
        cwd=modules,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
    )
    found = [int(command.stdout.readline()) for _ in range(2)]
    command.send_signal(number)
    command.send_signal(number)
    command.communicate(timeout=180)
    assert wait_for(lambda: all(map(gone, found)), what="the end of all")
