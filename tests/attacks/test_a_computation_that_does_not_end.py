"""A round whose computation holds the interpreter, as class discovery of 2,048 reports does for a minute.

The server answers everybody meanwhile, stops when it is asked to, and does the step again when its process is killed.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.support.aggregator_process import Aggregator, FakeDevice, Fleet
from tests.support.edge_process import wait_for
from tests.support.installed_package import install_package
from tests.support.power_cut import lives

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
    entry_points = {"auricle.strategies": {"stubborn": "stubborn:STRATEGY"}}
    install_package(tmp_path, "stubborn", {"stubborn": STUBBORN}, entry_points, monkeypatch)
    monkeypatch.setenv("STUBBORN", str(tmp_path))
    with Aggregator(tmp_path / "data").start() as aggregator:
        yield Fleet(aggregator, [FakeDevice(number, ("c0", "c1")) for number in (1, 2)]).ready()


def computing(folder: Path, other_than: int = 0) -> int:
    """Wait for a process that computes, and return its id."""

    def others() -> set[int]:
        return {int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")} - {other_than}

    return wait_for(others, what="a process that computes").pop()


@pytest.fixture
def pid(fleet, tmp_path):
    """The process that computes round 1."""
    fleet.open_round(strategy="stubborn")
    fleet.upload_all()
    return computing(tmp_path)


def test_the_server_answers_meanwhile_and_has_the_step_done_again_by_another_process_when_its_own_is_killed(
    fleet, pid, tmp_path
):
    assert pid != fleet.aggregator.process.pid
    for _ in range(20):
        assert fleet.admin.get("/v1/health").status_code == 200
        assert fleet.round(1)["summary"]["state"] == "open"
    os.kill(pid, signal.SIGKILL)
    assert computing(tmp_path, other_than=pid) != pid
    (tmp_path / "go").touch()
    wait_for(lambda: fleet.round(1)["summary"]["state"] == "done", what="the end of the round")


def test_nothing_is_left_running_when_the_server_itself_is_killed(fleet, pid):
    fleet.aggregator.kill()
    wait_for(lambda: not lives(pid), what="the end of the process")
