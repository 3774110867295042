"""A database that is gone or another's starts no new fleet, and an empty store is not taken for the fleet's."""

import shutil
import time

import pytest

from aggregator_server.errors import StartError
from aggregator_server.store.location import Location
from aggregator_server.upkeep.doctor import examine
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.commands import command


def start_error(data):
    ended = command("run", "--data", data, "--port", "0")
    assert ended.returncode == 1
    return ended.stderr


def test_a_database_that_is_gone_empty_or_anothers_starts_no_new_fleet(start_aggregator):
    server, other = start_aggregator(), start_aggregator("other")
    fleet = Fleet(server, [FakeDevice(number, ("c0", "c1")) for number in range(1, 5)]).ready()
    for process in (server, other):
        assert process.stop() == 0
    database = server.data / "auricle.db"
    own = database.read_bytes()
    database.unlink()
    gone = start_error(server.data)
    database.write_bytes(b"")
    assert start_error(server.data) == gone
    assert all(words in gone for words in (str(server.data), "missing or empty", "backup", "new fleet", "blobs"))
    (server.data / "blobs" / "fleet.id").unlink()
    assert start_error(server.data) == gone
    database.write_bytes((other.data / "auricle.db").read_bytes())
    (server.data / "blobs" / "fleet.id").write_text("1\n")
    foreign = start_error(server.data)
    assert all(words in foreign for words in ("another fleet", "backup", "fleet.id"))
    database.write_bytes(own)
    (server.data / "blobs" / "fleet.id").unlink()
    server.start()
    fleet.reconnect()
    assert len(fleet.admin.get("/v1/devices").json()) == 4


def test_an_empty_store_beside_a_database_with_arrays_is_refused_and_one_that_goes_makes_the_server_unready(
    start_aggregator, tmp_path
):
    share = tmp_path / "share"
    server = start_aggregator("server", "--store", str(share / "fleet"))
    fleet = Fleet(server, [FakeDevice(1, ("c0", "c1"))]).ready()
    assert server.client().get("/v1/health/ready").status_code == 200
    shutil.move(share, tmp_path / "away")  # as where a share is no longer mounted
    (share / "fleet" / "incoming").mkdir(parents=True)
    assert server.client().get("/v1/health/ready").json()["error"]["code"] == "not_ready"
    assert "which the fleet needs, is missing; is the share mounted?" in server.log()
    place = Location(server.data, store=str(share / "fleet"))
    with pytest.raises(StartError, match="holds none of them"):
        examine(place, time.time())
    assert server.stop() == 0
    for path in (share / "fleet", share / "a prefix that was mistyped"):
        ended = command("run", "--data", server.data, "--store", path, "--port", "0")
        assert ended.returncode == 1
        assert f"has arrays, and {path} holds none of them" in ended.stderr
        assert not (path / "fleet.id").exists()
    shutil.rmtree(share)
    shutil.move(tmp_path / "away", share)
    (needed,) = share.glob("fleet/??/*")
    needed.rename(share / "fleet" / "00" / ("0" * 64))  # a store that is not empty
    assert [found.state for found in examine(place, time.time()) if found.subject == "arrays"] == ["problem"]
    (share / "fleet" / "00" / ("0" * 64)).rename(needed)
    server.start()
    fleet.reconnect()
    assert server.client().get("/v1/health/ready").status_code == 200
