"""Database or object store are away while devices talk to a server: 503 with Retry-After, and nothing is lost."""

import contextlib
import http.client
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.edge_process import wait_for
from tests.support.faulty_state import Link
from tests.support.state_servers import PASSWORD, PostgresServer, located

pytestmark = pytest.mark.scaled


def refused(response):
    assert (response.status_code, response.json()["error"]["code"]) == (503, "state_away"), response.text
    assert int(response.headers["Retry-After"]) > 0
    assert not any(word in response.text for word in ("127.0.0.1", "postgres", "s3"))


@pytest.fixture
def devices():
    return [FakeDevice(n, ("c0", "c1")) for n in (1, 2)]


def test_a_store_that_goes_away_within_an_upload_costs_the_device_a_repetition(
    start_aggregator, states, devices, monkeypatch
):
    with contextlib.closing(Link(states.s3.port)) as link:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{link.port}")
        server = start_aggregator()
        fleet = Fleet(server, devices).ready()
        round_id = fleet.open_round()
        first, second = devices
        work = fleet.work(first)
        body = first.upload(work, fleet.samples)
        link.cut(after=len(body) // 2)  # in the middle of what goes to the store
        refused(fleet.upload(first, work, body))
        refused(fleet.admin.get(f"/v1/blobs/{work['public_set']}"))
        assert server.client().get("/v1/health").status_code == 200
        assert fleet.round(round_id)["participants"][0]["upload"] is None  # no row names what is not there
        link.mend()
        receipt = fleet.upload(first, work, body)
        assert receipt.status_code == 200
        assert not receipt.json()["repeated"]
        fleet.upload(second, fleet.work(second), None).raise_for_status()
        wait_for(lambda: fleet.round(round_id)["summary"]["state"] == "done")
        assert PASSWORD not in server.log()
        assert "503" in server.log()


def test_a_database_that_crashes_keeps_every_upload_with_a_receipt(tmp_path, start_aggregator, states, devices):
    postgres = PostgresServer("fsync=on")
    with contextlib.ExitStack() as ending:
        ending.callback(postgres.remove)
        postgres.start()
        server = start_aggregator("server", "--database", postgres.url(postgres.new()))
        fleet = Fleet(server, devices).ready()
        round_id = fleet.open_round()
        first, second = devices
        assert fleet.upload(first, fleet.work(first)).status_code == 200
        postgres.stop(signal.SIGQUIT)  # without a checkpoint, as a power cut
        client = fleet.clients[second.number]
        refused(client.get("/v1/work"))
        refused(client.get("/v1/work"))
        with contextlib.suppress(http.client.HTTPException):
            refused(fleet.admin.get("/v1/rounds"))
        postgres.start()
        wait_for(lambda: client.get("/v1/work").status_code == 200)
        shown = {part["device_id"]: part["upload"] for part in fleet.round(round_id)["participants"]}
        assert shown[first.device_id] is not None
        fleet.upload(second, fleet.work(second)).raise_for_status()
        wait_for(lambda: fleet.round(round_id)["summary"]["state"] == "done")
        assert PASSWORD not in server.log()


@pytest.mark.parametrize("new", [False, True])
def test_connections_that_are_silent_and_acknowledged_keep_no_request_and_no_end_waiting(
    tmp_path, start_aggregator, states, devices, new
):
    known = located(tmp_path / "server")
    with contextlib.closing(Link(states.postgres.port)) as link:
        url = known.database.replace(f":{states.postgres.port}/", f":{link.port}/")
        server = start_aggregator("server", "--database", url)
        fleet = Fleet(server, devices).ready()
        round_id = fleet.open_round()
        work = {device.number: fleet.work(device) for device in devices}
        body = {device.number: device.upload(work[device.number], fleet.samples) for device in devices}

        def upload(device):
            return fleet.upload(device, work[device.number], body[device.number])

        link.silence(new=new)
        began = time.monotonic()
        with ThreadPoolExecutor(30) as threads:
            answers = [threads.submit(server.client().get, "/v1/rounds") for _ in range(29)]
            first = threads.submit(upload, devices[0])
            assert {answer.result().status_code for answer in answers} <= ({503} if new else {200, 503})
            assert first.result().status_code in ((503,) if new else (200, 503))
        assert time.monotonic() - began < 60  # and not for ever, nor one after the other
        if new:
            assert server.client().get("/v1/health/ready").json()["error"]["code"] == "not_ready"
            assert server.client().get("/v1/health/alive").status_code == 200
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 30
            link.mend()
            server.start()
            fleet.reconnect()
        for device in devices:
            wait_for(lambda device=device: upload(device).status_code == 200)
        wait_for(lambda: fleet.round(round_id)["summary"]["state"] == "done")
