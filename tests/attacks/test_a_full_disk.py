"""A disk that fills up: uploads are refused before the last of it, and with a message that says so at its very end."""

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest

from aggregator_server.errors import BackupError
from aggregator_server.store.free_space import FreeSpace
from aggregator_server.upkeep.backup import back_up_into
from edge_client.daemon.status import StatusFile, read_status
from edge_client.errors import StateError
from edge_client.events import Event
from edge_client.events.journal import Chosen, Journal, past_events, remove_events
from edge_client.storage.checked_files import copy_of, read_checked, write_checked
from edge_client.storage.database import FILE, Database
from edge_client.storage.device_state import DeviceState
from edge_client.storage.identity import IdentityStore
from fleet_protocol.client.identity import Identity
from tests.support.aggregator_process import Aggregator, FakeDevice, Fleet
from tests.support.commands import command
from tests.support.core_fleet import between_rounds
from tests.support.edge_process import wait_for

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
    with Aggregator(disk / "data").start() as aggregator:
        yield Fleet(aggregator, [FakeDevice(number, ("c0", "c1")) for number in (1, 2)]).ready()


def fill(disk: Path, leave: int) -> Path:
    """Write a file that leaves so many bytes free."""
    path = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    try:
        path.write_bytes(b"\0" * (free - leave))
    except OSError as error:
        if (error.errno, leave) != (errno.ENOSPC, 0):  # a server that runs wrote meanwhile
            raise
    return path


def test_a_large_disk_keeps_a_gigabyte_free():
    assert FreeSpace(free=1_000_000_000, total=250_000_000_000).enough
    assert not FreeSpace(free=999_999_999, total=250_000_000_000).enough


def test_uploads_are_refused_before_the_disk_is_full_and_nothing_is_lost_when_it_is(fleet, disk):
    round_id = fleet.open_round()
    work = fleet.work(fleet.devices[0])
    filler = fill(disk, MEGABYTES * 10_000)
    refused = fleet.upload(fleet.devices[0], work)
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "storage_full")
    assert all(words in refused.json()["error"]["message"] for words in (str(disk), "last 1 MB", "free space"))
    assert fleet.publish().json()["error"]["code"] == "storage_full"
    health = fleet.admin.get("/v1/health").json()
    assert health["status"] == "storage_full"
    assert health["free_bytes"] < 0.05 * health["disk_bytes"]
    filler.unlink()
    assert fleet.admin.get("/v1/health").json()["status"] == "ok"
    fleet.upload_all()
    for device in fleet.devices:
        assert fleet.work(device)["kind"] == "learn"
        fleet.learned(device, round_id).raise_for_status()
    assert fleet.round(round_id)["summary"]["state"] == "done"
    filler = fill(disk, 0)  # not a byte
    refused = fleet.admin.post("/v1/rounds", json={"strategy": "zero_shot"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "storage_full"), refused.text
    assert "free space" in refused.json()["error"]["message"]
    filler.unlink()
    assert fleet.run_round()["summary"]["state"] == "done"


def said_on_full_disk(data: Path, *arguments: str) -> str:
    """Run a command of the server that a full disk ends; return what it says."""
    refused = command(*arguments, "--data", data, token=None)
    assert refused.returncode == 1
    said = refused.stderr
    assert "is full" in said
    assert "free space" in said
    assert not {"backup", "Traceback", "damaged:"} & {*said.replace("(", " ").split()}
    assert len(said.splitlines()) == 1
    return said


def test_a_server_or_a_check_that_starts_on_a_full_disk_says_so(fleet, disk):
    """Whichever file has no room: the database's log and its index, or the address."""
    fleet.aggregator.stop()
    for left in (0, 4_096):
        filler = fill(disk, left)
        said = said_on_full_disk(disk / "data", "run", "--port", "0")
        assert f"the disk of data folder {disk / 'data'} is full" in said
        if not left:
            said_on_full_disk(disk / "data", "check")
        filler.unlink()
    fleet.aggregator.start()
    fleet.reconnect()
    assert fleet.run_round()["summary"]["state"] == "done"


@pytest.mark.parametrize("left", [0, 16_384])
def test_a_new_server_on_a_full_disk_says_so_too(disk, left):
    fill(disk, left)
    said_on_full_disk(disk / "data", "run", "--create", "--port", "0")


def test_a_copy_that_would_take_the_disks_last_room_is_refused_and_those_there_stay(disk, tmp_path):
    between_rounds(tmp_path / "data", uploads=2)
    first = back_up_into(tmp_path / "data", disk / "copies", 9, time.time())
    fill(disk, 600_000)
    with pytest.raises(BackupError, match=r"too little space.*MB are free.*another disk"):
        back_up_into(tmp_path / "data", disk / "copies", 9, time.time() + 86_400.0)
    assert list((disk / "copies").iterdir()) == [first]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("left", [0, 4_096, 40_000])
def test_a_devices_journal_on_a_full_disk_says_so_loses_events_and_takes_them_once_there_is_room(
    disk, begun, left, caplog
):
    def heard(label):
        return Event(time.time(), "detected", label, None, 0.9, -20.0)

    database = Database(disk / "state" / FILE)
    database.path.parent.mkdir()
    if begun:
        journal = Journal(database)
        journal.publish(heard("kettle"))
        journal.close()
    filler = fill(disk, left)
    journal = Journal(database)
    for _ in range(40):
        journal.publish(heard("bell"))
    lost = wait_for(lambda: journal.stored()["lost"], what="an event that finds no room")
    assert journal.stored()["trouble"] == "the disk is full; free space there"
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    assert "cannot write the journal" in caplog.text
    if not left:
        if begun:
            assert [event.label for event in past_events(database, 10)] == ["kettle"]
            with pytest.raises(OSError, match="the disk is full; free space there"):
                remove_events(database, Chosen(label="kettle"))
        else:
            assert past_events(database, 10) == []
            assert remove_events(database, Chosen(label="bell")) == 0
    filler.unlink()
    wait_for(lambda: not journal.stored()["trouble"], what="room in the journal")  # without another event
    lost = journal.stored()["lost"]
    journal.publish(heard("cup"))
    journal.close()
    assert journal.stored()["lost"] == lost <= 40
    assert not list(database.path.parent.glob("*.damaged"))
    assert [event.label for event in past_events(database, 100)] == ["kettle"] * begun + ["bell"] * (40 - lost) + [
        "cup"
    ]


def test_a_status_that_has_no_room_beside_the_old_one_takes_its_place(disk, monkeypatch):
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    file = StatusFile(DeviceState(disk / "state"))
    file.write({"name": "shelf", "more": "x" * 3000})
    fill(disk, 0)
    with pytest.raises(OSError, match="No space left"):
        (disk / "other").write_bytes(b"x")
    file.write({"name": "shelf", "more": "y" * 3000}, last=True)
    assert read_status(DeviceState(disk / "state"))["more"] == "y" * 3000
    assert sorted(path.name for path in (disk / "state").iterdir()) == ["status.json"]


def test_a_new_device_on_a_full_disk_says_what_it_cannot_write(disk):
    (disk / "state").mkdir()
    fill(disk, 0)
    with pytest.raises(StateError, match=r"cannot write .*identity\.json.* No space left on device; free space there"):
        IdentityStore(disk / "state").load()
    assert not list((disk / "state").iterdir())


@pytest.mark.parametrize("damaged", [False, True])
def test_a_device_mends_what_it_can_on_a_full_disk_and_the_rest_once_there_is_room(disk, damaged):
    state = DeviceState(disk / "state")
    state.identity.save(Identity("a" * 32, "b" * 64))
    path = disk / "state" / "identity.json"
    kept = read_checked(path)
    if damaged:
        path.write_bytes(b"x")
    else:
        write_checked(copy_of(path), b"as it was")
    filler = fill(disk, 0)
    assert state.mend() == []
    assert state.identity.load() == Identity("a" * 32, "b" * 64)
    filler.unlink()
    assert len(state.mend()) == int(damaged)
    assert read_checked(path) == read_checked(copy_of(path)) == kept
    assert sorted(one.name for one in path.parent.iterdir()) == ["identity.json", "identity.json.copy"]
