"""A disk that fills up: uploads are refused before the last of it, and with a message that says so at its very end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.aggregator_process import Aggregator, FakeDevice, Fleet

MEGABYTES = 16


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(path)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def fleet(disk):
    aggregator = Aggregator(disk / "data").start()
    fleet = Fleet(aggregator, [FakeDevice(number, ("c0", "c1")) for number in (1, 2)])
    fleet.publish()
    fleet.enrol()
    yield fleet
    fleet.close()
    aggregator.stop()


def fill(disk: Path, leave: int) -> Path:
    """Write a file that leaves so many bytes free."""
    path = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    path.write_bytes(b"\0" * (free - leave))
    return path


def test_uploads_are_refused_before_the_disk_is_full_and_taken_when_there_is_room_again(fleet, disk):
    round_id = fleet.open_round()
    work = fleet.work(fleet.devices[0])
    filler = fill(disk, MEGABYTES * 10_000)
    refused = fleet.upload(fleet.devices[0], work)
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "storage_full")
    assert all(words in refused.json()["error"]["message"] for words in (str(disk), "last 5%", "make room"))
    assert fleet.publish().json()["error"]["code"] == "storage_full"
    health = fleet.admin.get("/v1/health").json()
    assert health["status"] == "storage_full"
    assert health["free_bytes"] < 0.05 * health["disk_bytes"]
    filler.unlink()
    assert fleet.admin.get("/v1/health").json()["status"] == "ok"
    for device in fleet.devices:
        fleet.upload(device, fleet.work(device)).raise_for_status()
    assert fleet.work(fleet.devices[0])["kind"] == "learn"
    assert fleet.round(round_id)["summary"]["state"] == "done"


def test_a_disk_without_a_byte_left_is_named_and_nothing_is_lost(fleet, disk):
    filler = fill(disk, 0)
    refused = fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "storage_full"), refused.text
    assert "make room" in refused.json()["error"]["message"]
    filler.unlink()
    assert fleet.run_round()["summary"]["state"] == "done"


def test_a_server_that_starts_on_a_full_disk_says_so(fleet, disk):
    fleet.aggregator.kill()
    filler = fill(disk, 0)
    command = [sys.executable, "-m", "aggregator_server.cli", "run", "--data", str(disk / "data"), "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "is full" in refused.stderr
    assert "make room" in refused.stderr
    assert "backup" not in refused.stderr
    filler.unlink()
    fleet.aggregator.start()
    fleet.reconnect()
    assert fleet.run_round()["summary"]["state"] == "done"
