"""A server whose cable to database and store is pulled: packets are lost, connections stay. Needs root."""

import contextlib
import time

import pytest

from tests.support.network_room import Room, why_none
from tests.support.shared_servers import PLANS, SharedServers, SharedState, undisturbed

pytestmark = pytest.mark.slow


@pytest.fixture
def room():
    why = why_none()
    if why:
        pytest.skip(why)
    with Room() as made:
        yield made


def until(found, what):
    end = time.monotonic() + 120
    while not found():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_fleet_goes_on_without_a_server_whose_cable_to_the_state_is_pulled(tmp_path, states, room, monkeypatch):
    for name, value in states.s3.environment.items():  # of the test itself, which reads what came of it
        monkeypatch.setenv(name, value)
    state = SharedState(states.postgres, states.s3, {0: room})
    with contextlib.closing(SharedServers(tmp_path, state)) as servers:
        cut = servers.servers[0]
        with servers.busy(PLANS), cut.client(None) as stranger:
            until(lambda: servers.receipts, "an upload")
            with servers.failover("cable pulled", 0):
                room.pull()
            until(lambda: stranger.get("/v1/health/ready").status_code == 503, "that it cannot do its work")
            assert stranger.get("/v1/health/alive").status_code == 200
            before = len(servers.receipts)
            until(lambda: len(servers.receipts) >= before + len(servers.devices), "uploads at the others")
            room.plug()
            until(lambda: stranger.get("/v1/health/ready").status_code == 200, "that it is back")
        assert [what for what, _ in servers.failovers] == ["cable pulled"]
        found = servers.outcomes(tmp_path / "reader")
        servers.require_uploads(found)
        assert found == undisturbed(tmp_path / "undisturbed", servers.devices, [one["plan"] for one in found])
