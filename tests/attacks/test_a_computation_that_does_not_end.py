"""A round whose computation holds the interpreter, as class discovery of 2,048 reports does for a minute.

The server answers everybody meanwhile, stops when it is asked to, and does the step again when its process is killed.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.aggregator_process import Aggregator, FakeDevice, Fleet
from tests.support.installed_package import install_package

STUBBORN = """
import dataclasses, os
from pathlib import Path
from aggregator_server.strategies import zero_shot

FOLDER = Path(os.environ["STUBBORN"])

def aggregate(inputs):
    (FOLDER / f"pid-{os.getpid()}").touch()
    while not (FOLDER / "go").exists():
        sum(range(10_000))  # holds the interpreter, unlike a sleep
    return zero_shot.STRATEGY.aggregate(inputs)

STRATEGY = dataclasses.replace(zero_shot.STRATEGY, name="stubborn", aggregate=aggregate)
"""


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    install_package(tmp_path, "stubborn", STUBBORN, "auricle.strategies", "stubborn = stubborn:STRATEGY", monkeypatch)
    monkeypatch.setenv("STUBBORN", str(tmp_path))
    with Aggregator(tmp_path / "data").start() as aggregator:
        yield Fleet(aggregator, [FakeDevice(number, ("c0", "c1")) for number in (1, 2)]).ready()


def computing(folder: Path, other_than: int = 0) -> int:
    """Wait for a process that computes, and return its id."""
    while True:
        pids = [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]
        running = [pid for pid in pids if pid != other_than]
        if running:
            return running[0]
        time.sleep(0.02)


def start_computing(fleet: Fleet, folder: Path) -> tuple[int, int]:
    round_id = fleet.open_round(strategy="stubborn")
    fleet.upload_all()
    return round_id, computing(folder)


def test_the_server_answers_meanwhile_and_has_the_step_done_again_by_another_process_when_its_own_is_killed(
    fleet, tmp_path
):
    round_id, pid = start_computing(fleet, tmp_path)
    assert pid != fleet.aggregator.process.pid
    for _ in range(20):
        assert fleet.admin.get("/v1/health").status_code == 200
        assert fleet.round(round_id)["summary"]["state"] == "open"
    os.kill(pid, signal.SIGKILL)
    assert computing(tmp_path, other_than=pid) != pid
    (tmp_path / "go").touch()
    while fleet.round(round_id)["summary"]["state"] == "open":
        time.sleep(0.02)
    assert fleet.round(round_id)["summary"]["state"] == "done"


def test_nothing_is_left_running_when_the_server_itself_is_killed(fleet, tmp_path):
    _, pid = start_computing(fleet, tmp_path)
    fleet.aggregator.kill()
    while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.02)
