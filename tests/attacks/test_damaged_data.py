"""A database that is gone, damaged or another's, and a store that is empty: no new fleet, no copy, and no server."""

import io
import random
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from aggregator_server.errors import BackupError, StartError
from aggregator_server.store.database import damage_of
from aggregator_server.store.location import Location
from aggregator_server.store.opening import open_store
from aggregator_server.upkeep.backup import back_up, back_up_into, restore
from aggregator_server.upkeep.backup_archive import written_backup
from aggregator_server.upkeep.check import check
from aggregator_server.upkeep.doctor import examine
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.checkout import ROOT
from tests.support.commands import command
from tests.support.core_fleet import between_rounds

PAGE = 4_096
NOON = 1_795_000_000.0


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
    unready = server.client().get("/v1/health/ready")
    assert (unready.status_code, unready.json()["error"]["code"]) == (503, "not_ready")
    assert (int(unready.headers["retry-after"]) > 0, str(share) in unready.text) == (True, False)
    assert server.client().get("/v1/health/alive").json() == {"status": "alive"}
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet") / "data"
    between_rounds(folder, uploads=2)
    return folder


@pytest.mark.parametrize("seed", range(3))
def test_overwritten_pages_are_seen_and_never_replace_the_last_good_copy(whole, tmp_path, seed):
    folder, copies = tmp_path / "data", tmp_path / "copies"
    shutil.copytree(whole, folder)
    good = back_up_into(folder, copies, 3, NOON)
    overwrite(folder / "auricle.db", random.Random(seed))
    assert check(folder) != []
    for days in range(1, 5):
        with pytest.raises(BackupError, match=rf"is damaged .* the last good copy is {good}"):
            back_up_into(folder, copies, 3, NOON + days * 86_400.0)
    with pytest.raises(BackupError, match="so it was not backed up"):
        back_up(folder, tmp_path / "copy.tar")
    with pytest.raises(StartError, match=rf"no server starts with it; the last good copy is {good}"):
        open_store(folder)
    with written_backup(copies / "bad.tar") as bad:
        data = (folder / "auricle.db").read_bytes()
        bad.add("auricle.db", io.BytesIO(data), len(data))
    with pytest.raises(BackupError, match=f"its database: .*use another one, such as {good}"):
        restore(copies / "bad.tar", tmp_path / "again")
    assert sorted(path.name for path in copies.iterdir()) == [good.name, "bad.tar"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copies", "data"]
    restore(good, tmp_path / "again")
    assert check(tmp_path / "again") == []


def overwrite(path, rng):
    """Overwrite three pages that are in use."""
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)
    database.close()
    pages = path.stat().st_size // PAGE
    with path.open("r+b") as file:
        for page in rng.sample(range(1, pages), 3):
            file.seek(page * PAGE)
            file.write(rng.randbytes(PAGE))


def test_a_row_that_names_a_missing_one_is_damage_too(whole, tmp_path):
    shutil.copy(whole / "auricle.db", tmp_path / "auricle.db")
    with sqlite3.connect(tmp_path / "auricle.db") as database:
        database.execute("DELETE FROM devices")
    database.close()
    assert any("names a row of devices that is missing" in line for line in damage_of(tmp_path / "auricle.db"))


def test_a_check_of_a_folder_that_cannot_be_written_says_so(whole):
    alone_with = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"',
    ]
    program = [sys.executable, "-m", "aggregator_server.cli", "check", "--data", str(whole)]
    ended = subprocess.run([*alone_with, str(whole), *program], cwd=ROOT, capture_output=True, text=True, check=False)
    if "unshare" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip(f"no mounts of one's own here: {ended.stderr.strip()}")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
    assert f"data folder {whole} cannot be used" in ended.stderr
    assert "Read-only file system" in ended.stderr
