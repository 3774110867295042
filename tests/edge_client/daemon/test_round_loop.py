"""Whole devices as processes of their own, with a real aggregator: rounds, new sounds, and what goes wrong."""

import contextlib
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_client.config import load_config
from edge_client.daemon.round_loop import RoundLoop
from edge_client.daemon.training_process import TrainingProcess
from edge_client.errors import WorkError
from fleet_protocol.tensors import digest
from tests.support.device_fleet import SETTINGS_OF_ROUND, enrolled, finished, open_round
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(bundles, fleet_of):
    return fleet_of(bundles)


def test_an_aggregator_that_is_away_is_waited_for_and_work_done_meanwhile_is_kept(fleet):
    server, device = fleet
    edge = device("edge", "cnn1", ("yes", "no")).start()
    enrolled(server, 1)
    round_id = open_round(server, settings=SETTINGS_OF_ROUND | {"epochs": 200})  # longer than it takes to kill a server
    wait_for(lambda: "contribute" in edge.log(), what="the start of training")
    address = server.url
    server.kill()
    update = edge.device_state().outbox.update_path(round_id)
    wait_for(update.exists, what="the finished upload in the outbox")
    sent = edge.device_state().outbox.read(update)
    wait_for(lambda: "does not answer" in edge.log(), what="a word about the missing aggregator")
    edge.end(signal.SIGKILL)  # and a power cut on top
    server.start()
    (edge.folder / "edge.toml").write_text((edge.folder / "edge.toml").read_text().replace(address, server.url))
    edge.start()
    found = finished(server, round_id)
    assert found["summary"]["state"] == "done"
    assert [participant["upload"] for participant in found["participants"]] == [digest(sent)]
    assert edge.log().count("contribute") == 1  # it was not trained for a second time
    assert not update.exists()


def test_what_waits_for_a_round_that_is_over_is_removed_before_the_next_one(fleet):
    server, device = fleet
    edge = device("edge", "cnn1", ("yes", "no"))
    outbox = edge.device_state().outbox
    left = outbox.update_path(1_000), outbox.learned_path(1_000)
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        outbox.put(path, b"{}")
    edge.start()
    enrolled(server, 1)
    wait_for(outbox.is_empty, what="an outbox without what nobody waits for")
    assert edge.log().count("is of a round that is over; it is removed") == 2
    assert finished(server, open_round(server))["summary"]["state"] == "done"


def test_training_ends_with_its_daemon_whether_that_is_killed_or_asked_to_end(fleet):
    server, device = fleet
    edge = device("edge", "cnn1", ("yes", "no")).start()
    enrolled(server, 1)
    open_round(server, settings=SETTINGS_OF_ROUND | {"epochs": 10_000})
    for number, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        children = wait_for(lambda: _children(edge.process.pid), what="the training process")
        started = time.monotonic()
        assert edge.end(number) == status
        assert time.monotonic() - started < 60  # minutes before the training would have ended
        wait_for(lambda pids=children: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="its end")
        if status:
            edge.start()


class LongTraining(TrainingProcess):
    """A training that goes on until it is stopped, and says when it began."""

    def train(self, _job, _name, beat):
        self.began = datetime.now(UTC)
        while not self._stop.wait(0.1):
            beat()
        raise WorkError("stopped")


def test_a_device_is_heard_of_while_it_trains_however_long_that_takes(fleet, monkeypatch):
    monkeypatch.setattr("edge_client.daemon.round_loop._SIGN_OF_LIFE_S", 1.0)
    server, device = fleet
    edge, stop = device("edge", "cnn1", ("yes", "no")), threading.Event()
    config, state = load_config(edge.config), edge.device_state()
    training = LongTraining(config.training, edge.config, stop, lambda: None, lambda: None)
    loop = RoundLoop(config, config.server, state, training, stop)
    running = threading.Thread(target=loop.run, args=(lambda: None,))
    running.start()
    try:
        enrolled(server, 1)
        open_round(server)
        began = wait_for(lambda: getattr(training, "began", None), what="the training")
        with server.client() as client:

            def is_heard():
                (info,) = client.get("/v1/devices").json()
                return datetime.fromisoformat(info["seen_at"]) > began + timedelta(seconds=2)

            wait_for(is_heard, what="a sign of life, which the server writes down twice a minute")
    finally:
        stop.set()
        running.join(120)


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found
