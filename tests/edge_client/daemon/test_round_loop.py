"""Whole devices as processes of their own, with a real aggregator: rounds, new sounds, and what goes wrong."""

import contextlib
import json
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
from fleet_protocol.numbers.tensors import digest
from tests.support.device_fleet import SETTINGS_OF_ROUND, enrolled, finished, open_round
from tests.support.edge_process import wait_for
from tests.support.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(bundles, fleet_of):
    return fleet_of(bundles)


class WithoutUploads(FaultyProxy):
    """A way to the aggregator on which no upload arrives: however soon it is there, the aggregator dies before."""

    def _pass_on(self, method, *request):
        return None if method == "PUT" else super()._pass_on(method, *request)


def test_an_aggregator_that_is_away_is_waited_for_and_work_done_meanwhile_is_kept(fleet):
    server, device = fleet
    edge = device("edge", "cnn1", ("yes", "no"))

    def lead(old, new):
        edge.config.write_text(edge.config.read_text().replace(old, new))

    with WithoutUploads(int(server.url.rpartition(":")[2]), share=0.0, seed=0) as network:
        lead(server.url, network.url)
        edge.start()
        enrolled(server, 1)
        round_id = open_round(server)
        wait_for(lambda: "contribute" in edge.log(), what="the start of training")
        server.kill()
        said = edge.log().count("does not answer")  # of an upload that did not arrive
        update = edge.device_state().outbox.update_path(round_id)
        wait_for(update.exists, what="the finished upload in the outbox")
        sent = edge.device_state().outbox.read(update)
        wait_for(lambda: edge.log().count("does not answer") > said, what="a word about the missing aggregator")
        edge.end(signal.SIGKILL)  # and a power cut on top
        server.start()
        lead(network.url, server.url)
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
    with rounds_of(device("edge", "cnn1", ("yes", "no")), LongTraining) as (_, training):
        enrolled(server, 1)
        open_round(server)
        began = wait_for(lambda: getattr(training, "began", None), what="the training")
        with server.client() as client:

            def is_heard():
                (info,) = client.get("/v1/devices").json()
                return datetime.fromisoformat(info["seen_at"]) > began + timedelta(seconds=2)

            wait_for(is_heard, what="a sign of life, which the server writes down twice a minute")


class WrongFirst(TrainingProcess):
    """Makes an upload, and later a report, that no aggregator takes, and then what it should."""

    def train(self, job, name, beat):
        super().train(job, name, beat)
        outbox, self.trained = self.device.device_state().outbox, [*getattr(self, "trained", ()), name]
        if self.trained == ["round 1: contribute"]:
            outbox.put(outbox.update_path(1), b"no arrays")
        elif job.kind == "learn":
            report = {"round_id": job.round_id, "metrics": {"loss": 1e308}}
            outbox.put(outbox.learned_path(job.round_id), json.dumps(report).encode())


def test_what_the_aggregator_refuses_for_its_form_is_sent_once_and_the_next_round_is_taken_part_in(fleet, caplog):
    server, device = fleet
    edge = device("edge", "cnn1", ("yes", "no"))
    caplog.set_level("WARNING", "edge_client.daemon.round_loop")
    with rounds_of(edge, WrongFirst) as (loop, training), server.client() as client:
        enrolled(server, 1)
        assert open_round(server) == 1
        wait_for(lambda: loop.status["trouble"], what="the refusal")
        assert "round 1: the aggregator refused (422 malformed_update): the upload cannot" in loop.status["trouble"]
        assert edge.device_state().outbox.is_empty()
        wait_for(lambda: client.get("/v1/devices").json()[0]["trouble"], what="word of it at the aggregator")
        for _ in range(3):  # while it asks for work again, it has none
            before = loop.asked
            wait_for(lambda before=before: loop.asked > before, what="a question for work")
        client.delete("/v1/rounds/1").raise_for_status()
        assert open_round(server) == 2
        found = finished(server, 2)
        assert found["summary"]["state"] == "done"
        assert loop.status["trouble"] == client.get("/v1/devices").json()[0]["trouble"] == ""
    assert training.trained == ["round 1: contribute", "round 2: contribute", "round 2: learn"]
    refused = [line for line in caplog.messages if "refused (422" in line]
    assert len(refused) == 2, refused
    assert refused[1].endswith("the device reports without figures")


@contextlib.contextmanager
def rounds_of(edge, kind):
    """A device's rounds in this process, with a training of a test's own."""
    stop, config = threading.Event(), load_config(edge.config)
    training = kind(config.training, edge.config, stop, lambda: None, lambda: None)
    training.device = edge
    loop = CountedRounds(config, config.server, edge.device_state(), training, stop)
    running = threading.Thread(target=loop.run, args=(lambda: None,))
    running.start()
    try:
        yield loop, training
    finally:
        stop.set()
        running.join(120)


class CountedRounds(RoundLoop):
    """Counts how often it asked for work."""

    asked = 0

    def _step(self):
        self.asked += 1
        super()._step()


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found
