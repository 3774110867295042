"""One damaged upload does not fail a round, and a database that is gone or another's starts no new fleet."""

import os
import subprocess
import sys

import pytest

from tests.support.aggregator_process import ADMIN, ENROL, FakeDevice, Fleet


@pytest.fixture
def fleet(start_aggregator):
    return Fleet(start_aggregator(), [FakeDevice(number, ("c0", "c1")) for number in range(1, 5)]).ready()


@pytest.mark.parametrize("bit", [0, 7 * 8 + 3, 900, 50_000 % 4096])
def test_a_round_goes_on_without_an_upload_in_which_a_bit_flipped(fleet, bit):
    """In the length of the header, in the header, and in the numbers."""
    round_id = fleet.open_round()
    for device in fleet.devices[:3]:
        digest = fleet.upload(device, fleet.work(device)).json()["sha256"]
        if device.number == 2:
            path = fleet.aggregator.data / "blobs" / digest[:2] / digest
            data = bytearray(path.read_bytes())
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
    last = fleet.devices[3]
    fleet.upload(last, fleet.work(last)).raise_for_status()
    assert fleet.work(last)["kind"] == "learn"
    shown = fleet.round(round_id)
    assert shown["damaged"] == [fleet.devices[1].device_id]
    assert sorted(shown["accuracies"]) == [device.device_id for device in fleet.devices if device.number != 2]


def start_error(data):
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--data", str(data), "--port", "0"]
    environment = os.environ | {"AURICLE_ADMIN_TOKEN": ADMIN, "AURICLE_ENROL_TOKEN": ENROL}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180, check=False)
    assert ended.returncode == 1
    return ended.stderr


def test_a_database_that_is_gone_empty_or_anothers_starts_no_new_fleet(fleet, start_aggregator):
    server, other = fleet.aggregator, start_aggregator("other")
    for process in (server, other):
        assert process.stop() == 0
    database = server.data / "auricle.db"
    own = database.read_bytes()
    database.unlink()
    gone = start_error(server.data)
    database.write_bytes(b"")
    assert start_error(server.data) == gone
    assert all(words in gone for words in (str(server.data), "missing or empty", "backup", "new fleet", "blobs"))
    (server.data / "fleet.id").unlink()  # as in a folder of an earlier release
    assert start_error(server.data) == gone
    database.write_bytes((other.data / "auricle.db").read_bytes())
    (server.data / "fleet.id").write_text("1\n")
    foreign = start_error(server.data)
    assert all(words in foreign for words in ("another fleet", "backup", "fleet.id"))
    database.write_bytes(own)
    (server.data / "fleet.id").unlink()
    server.start()
    fleet.reconnect()
    assert len(fleet.admin.get("/v1/devices").json()) == 4
