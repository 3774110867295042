"""The daemon's parts: loops that fail alone, training that is retried and killed, and what the status says."""

import os
import textwrap
import threading
import time

import pytest

from edge_client.config.sections import TrainingConfig
from edge_client.daemon import supervisor as supervision
from edge_client.daemon.status import StatusFile, health_of, read_status, why_silent
from edge_client.daemon.supervisor import Supervisor, notify
from edge_client.daemon.training_process import TrainingProcess
from edge_client.errors import StateError, WorkError
from edge_client.logs import RateLimitedLog
from edge_client.storage.device_state import DeviceState
from fleet_protocol.ground.atomic_files import written_durably
from tests.support.edge_process import wait_for


def nothing():
    pass


def test_a_loop_that_fails_is_started_again_and_the_others_never_notice():
    stop, calls, ticks = threading.Event(), [], []

    def failing(_):
        calls.append(time.monotonic())
        raise OSError("the microphone is gone")

    def steady(_):
        while not stop.wait(0.01):
            ticks.append(1)

    supervisor = Supervisor(stop)
    supervisor.add("failing", 60, failing)
    supervisor.add("steady", 60, steady)
    supervisor.start()
    wait_for(lambda: len(calls) >= 2, what="the second start")
    before = len(ticks)
    wait_for(lambda: len(ticks) > before, what="the other loop's progress")
    status = supervisor.loops["failing"].to_json()
    stop.set()
    assert supervisor.join(60) == []
    assert status["error"] == "the microphone is gone"
    assert supervisor.loops["steady"].restarts == 0


def test_a_loop_without_progress_counts_as_stuck_and_a_waiting_one_does_not():
    stop = threading.Event()
    supervisor = Supervisor(stop)
    hangs = supervisor.add("hangs", 0.2, lambda _: stop.wait())
    fails = supervisor.add("fails", 60, lambda _: 1 / 0)
    supervisor.start()
    wait_for(hangs.stuck, what="a loop that is stuck")
    wait_for(lambda: fails.restarts >= 1, what="the first restart")
    paused = fails.progressed  # its next pause is longer than a second, and it beats meanwhile
    wait_for(lambda: fails.state == "waiting" and fails.progressed > paused, what="progress while it waits")
    assert (hangs.stuck(), fails.stuck()) == (True, False)
    stop.set()
    assert supervisor.join(60) == []


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """A training process of the test's own, in place of edge_client.learning.worker's module."""

    def install(code):
        package = tmp_path / "edge_client" / "learning"
        package.mkdir(parents=True)
        (tmp_path / "edge_client" / "__init__.py").write_text("")
        (package / "__init__.py").write_text("")
        (package / "worker.py").write_text(textwrap.dedent(code))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return install


def training(tmp_path, trained=nothing, stop=None, **settings):
    return TrainingProcess(
        TrainingConfig(**settings), tmp_path / "edge.toml", stop or threading.Event(), nothing, trained
    )


def test_training_that_fails_is_tried_once_more(tmp_path, worker):
    worker("""
        import json, pathlib, sys
        job = json.loads(sys.stdin.readline())
        mark = pathlib.Path("tried")
        if not mark.exists():
            mark.write_text("")
            sys.exit(7)
        pathlib.Path("done").write_text(job["kind"])
    """)
    trained = []
    made = training(tmp_path, lambda: trained.append(True))
    made.train(None, "teaching", nothing)
    assert (tmp_path / "done").read_text() == "teach"
    assert trained == [True]
    assert (made.status["trained"], made.status["failed"]) == (1, 1)
    assert "status 7" in made.status["error"]


def test_training_that_fails_twice_is_given_up_by_name(tmp_path, worker):
    worker("import sys; sys.exit(3)")
    with pytest.raises(WorkError, match=r"round 5.*status 3, 2 times"):
        training(tmp_path).train(None, "round 5", nothing)


@pytest.mark.slow
def test_training_is_killed_at_its_deadline_even_if_it_will_not_listen(tmp_path, worker):
    worker("""
        import os, pathlib, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open("pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(3600)
    """)
    pids, deadline_s = tmp_path / "pids", 0.5
    while not pids.exists() or len(pids.read_text().split()) < 2:  # a busy machine takes longer to start a process
        deadline_s *= 2
        with pytest.raises(WorkError, match=rf"was not done after {deadline_s:g} s"):
            training(tmp_path, deadline_s=deadline_s).train(None, "round 5", nothing)
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_the_status_is_in_memory_under_systemd_and_found_through_the_state_folder(tmp_path, monkeypatch):
    state = DeviceState(tmp_path / "state")
    with pytest.raises(StateError, match="no daemon has run"):
        read_status(state)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "run"))
    file = StatusFile(state)
    file.write({"name": "shelf"})
    assert (tmp_path / "run" / "status.json").stat().st_mode & 0o777 == 0o600
    assert read_status(state)["name"] == "shelf"
    assert read_status(state)["running"] is False
    lock = state.lock("daemon")
    assert read_status(state)["running"] is True
    os.close(lock)
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    StatusFile(state).write({"name": "on disk"})
    assert not (tmp_path / "state" / "status.json").is_symlink()
    assert read_status(state)["name"] == "on disk"


def test_a_status_on_a_disk_is_written_when_there_is_news_and_a_daemon_that_stands_still_is_seen(tmp_path, monkeypatch):
    state = DeviceState(tmp_path / "state")
    lock = state.lock("daemon")
    file = StatusFile(state)
    file.write(status(name="shelf"))
    file.write(status(name="without news"))
    assert read_status(state)["name"] == "shelf"
    file.write(status(name="pulled", loops=loops(state="waiting", error="no microphone is there")))
    assert read_status(state)["name"] == "pulled"
    file.write(status(name="the last", loops=loops(state="waiting", error="no microphone is there")), last=True)
    found = read_status(state)
    assert found["name"] == "the last"
    assert found["stands_still"] is False
    monkeypatch.setattr(time, "time", lambda: found["time"] + 31)
    assert read_status(state)["stands_still"] is True
    os.close(lock)
    assert read_status(state)["stands_still"] is False
    StatusFile(state)  # of the next daemon, which is starting: what the last one said is over
    assert not (tmp_path / "state" / "status.json").exists()


def test_half_written_files_are_removed_and_nothing_else(tmp_path):
    state = DeviceState(tmp_path / "state")
    keep = [tmp_path / "state" / name for name in (".bashrc", ".config", "model.safetensors")]
    for path in keep:
        path.write_text("mine")
    left, room = (tmp_path / "state" / name for name in (".model.safetensors.0123abcd", "room.safetensors"))
    left.write_text("half")
    room.write_text("what an earlier release kept of the room")
    with written_durably(tmp_path / "state" / "page.key") as file:  # another process of the device is writing
        file.write(b"half")
        state.remove_leftovers()
    assert not left.exists()
    assert not room.exists()
    assert all(path.exists() for path in keep)
    assert (tmp_path / "state" / "page.key").read_bytes() == b"half"


STARTED = 1_000.0


HEARD = {"frames": 16_000, "last_frame_age_s": 0.1, "lent": False, "trouble": ""}
SILENT = HEARD | {"last_frame_age_s": 100.0}


def status(**changes):
    loop = {"state": "running", "restarts": 0, "error": "", "stuck": False}
    return {
        "started": STARTED,
        "inputs": {"": HEARD},
        "loops": {"listening": loop, "teaching": loop},
        "journal": {"trouble": "", "lost": 3},
        "damage": [],
        "forgets": "",
        "training": {"error": ""},
        "teaching": {"error": ""},
        "server": None,
        "versions": {"auricle": "0.1.0"},
    } | changes


def loops(name="listening", **changes):
    found = status()["loops"]
    return found | {name: found[name] | changes}


CASES = [
    ({}, True, ""),
    ({"inputs": {"": None}, "loops": loops(state="waiting", error="gone")}, False, "listening failed: gone"),
    ({"loops": loops(error="gone an hour ago", restarts=1)}, True, ""),
    ({"inputs": {"": SILENT}}, False, "the microphone gives no sound"),
    ({"inputs": {"": SILENT | {"trouble": "refused"}}}, False, "the microphone gives no sound: refused"),
    ({"inputs": {"": SILENT | {"lent": True}}}, False, ""),  # its owner records with it
    ({"inputs": {"microphone": HEARD, "kitchen": SILENT}}, True, "the microphone kitchen gives no sound"),
    (
        {"inputs": {"microphone": HEARD, "kitchen": None}, "loops": loops() | loops("listening", error="refused")},
        True,
        "the microphone kitchen gives no sound",
    ),
    ({"loops": loops("teaching", stuck=True)}, True, "teaching makes no progress"),
    ({"journal": None}, True, ""),
    ({"journal": {"trouble": "full", "lost": 0}}, True, "the journal takes no events: full"),
    ({"damage": ["a", "model.json was damaged"]}, True, "damaged files were found: model.json was damaged"),
]


@pytest.mark.parametrize(("changes", "listens", "problem"), CASES)
def test_it_listens_or_something_is_the_reason(changes, listens, problem):
    found = health_of(status(**changes), STARTED + 600)
    assert (found.listening, found.problem) == (listens, problem)


def test_a_device_that_has_just_started_has_no_problem_yet():
    assert health_of(status(inputs={"": None}), STARTED + 20).problem == ""
    assert health_of(status(inputs={"": None}), STARTED + 200).problem == "the microphone gives no sound"


GONE = "no microphone is there: plug one in"
NEVER = HEARD | {"frames": 0}
SILENCES = [
    ({"inputs": {"": None}, "listening": None, "loops": loops(state="waiting", error=GONE)}, GONE),
    ({"inputs": {"": NEVER}, "listening": NEVER, "loops": loops(error=GONE)}, GONE),  # it is being tried again
    ({"listening": HEARD, "loops": loops(error=GONE)}, ""),  # it gave sound since
    ({"listening": SILENT | {"trouble": "ffmpeg: 401 Unauthorized"}}, "ffmpeg: 401 Unauthorized"),
    ({"listening": SILENT | {"lent": True}}, "somebody records with the microphone"),
    ({"inputs": {}, "listening": None}, "it has no microphone"),
    ({"running": False}, "the daemon does not run: auricle-edge run"),
    ({"stands_still": True, "time": 0.0}, "the daemon has said nothing for"),
]


@pytest.mark.parametrize(("changes", "why"), SILENCES)
def test_an_owner_reads_why_no_sound_comes(changes, why):
    found = why_silent({"running": True, "time": 1.0, "stands_still": False} | status(listening=HEARD) | changes)
    assert found.startswith(why) if why else found == ""


@pytest.mark.parametrize("address", ["/gone/notify.sock", "@gone"])
def test_a_notify_socket_that_is_gone_is_a_warning_and_no_reason_to_end(monkeypatch, caplog, address):
    """As containers, and shells within a service, inherit the variable."""
    monkeypatch.setattr(supervision, "_trouble", RateLimitedLog(supervision.log))
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert [notify("READY=1"), notify("WATCHDOG=1")] == [False, False]
    (line,) = caplog.messages
    assert f"NOTIFY_SOCKET={address}" in line
