"""Whole devices as processes of their own, with a real aggregator: rounds, new sounds, and what goes wrong."""

import contextlib
import signal
import time
from pathlib import Path

import pytest

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


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found
