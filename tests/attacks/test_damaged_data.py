"""A database that is gone or another's starts no new fleet."""

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
