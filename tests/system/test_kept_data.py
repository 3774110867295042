"""What earlier versions left is opened and gone on with, for ever; what is older than that is refused untouched.

``kept_data`` has what each revision left (tests/support/kept_data.py), and what versions before the first one did.
"""

import contextlib
import json
import os
import sqlite3
import tarfile
import time
from pathlib import Path

import pytest

from aggregator_server.store.opening import open_store
from edge_client.storage.checked_files import read_twice, write_twice
from edge_client.storage.database import Database
from fleet_protocol.numbers.tensors import digest, pack, unpack
from tests.support.aggregator_process import Aggregator, Fleet, SharingDevice
from tests.support.commands import command
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.kept_data import CLASSES, FACTS, configuration, seen
from tests.support.sounds import write_clips

KEPT = Path(__file__).parent / "kept_data"
SERVERS, DEVICES = (sorted(path.name for path in KEPT.glob(f"{kind}-[0-9]*")) for kind in ("server", "device"))
pytestmark = pytest.mark.slow


@pytest.fixture
def kept(tmp_path):
    """(name) -> the folder of an archive, unpacked; what was true of it."""

    def unpacked(name):
        with tarfile.open(KEPT / name) as archive:
            archive.extractall(tmp_path, filter="data")
        folder = tmp_path / name.partition("-")[0]
        facts = folder / FACTS
        found = json.loads(facts.read_text()) if facts.exists() else {}
        facts.unlink(missing_ok=True)
        return folder, found

    return unpacked


def contents(folder):
    """Digest of each file by name, without locks and the index that readers of SQLite share."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    files = [
        path for path in files if "lock" not in path.name and path.suffix not in (".sqlite3-shm", ".db-shm", ".db-wal")
    ]
    return {str(path.relative_to(folder)): digest(path.read_bytes()) for path in files}


def schema(file):
    """Tables with their columns, and indices, of a file of SQLite."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        columns = {
            name: {column[1:4] for column in database.execute(f"PRAGMA table_info({name})")} for (name,) in tables
        }
        indices = database.execute("SELECT name FROM sqlite_schema WHERE type = 'index'").fetchall()
        return columns, {name for (name,) in indices}


def goes_on(folder, facts):
    """A server opens a folder, shows all of it, takes what was missing and ends the round that was open."""
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database, database:
        database.execute("UPDATE rounds SET deadline_at = ? WHERE state = 'open'", (time.time() + 86_400.0,))
    third = SharingDevice(3, CLASSES)
    with Aggregator(folder) as server:
        fleet = Fleet(server.start(), [third])
        now = seen(fleet.admin)
        assert now == {name: facts[name] for name in now}
        with server.client(facts["operator"]) as operator, server.client(facts["invitation"]) as invited:
            assert operator.get("/v1/rounds").status_code == 200
            assert invited.post("/v1/devices", json=SharingDevice(77, CLASSES).enrolment()).status_code == 200
        fleet.upload(third, fleet.contribution(third)).raise_for_status()
        wait_for(lambda: fleet.round(facts["open"])["summary"]["state"] == "done", what="the round that was open")
        assert fleet.admin.post("/v1/rounds/2/restore").status_code == 201
        fleet.open_round(strategy="fedavg")
        assert server.stop() == 0
        assert "Traceback" not in server.log()


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_goes_on_with_what_every_version_left_and_with_a_copy_of_it(tmp_path, kept, name):
    folder, facts = kept(name)
    open_store(tmp_path / "new").close()
    assert command("check", "--data", folder).returncode == (0 if name == SERVERS[-1] else 1)
    assert command("backup", tmp_path / "copy.tar", "--data", folder).returncode == 0
    restored = command("restore", tmp_path / "copy.tar", "--data", tmp_path / "restored")
    assert restored.returncode == 0, restored.stderr
    for place in (folder, tmp_path / "restored"):
        goes_on(place, facts)
        assert schema(place / "auricle.db") == schema(tmp_path / "new" / "auricle.db")
        assert command("check", "--data", place).returncode == 0


def test_a_servers_data_from_before_the_first_revision_is_refused_by_every_command_and_left_as_it_is(tmp_path, kept):
    folder, _ = kept("server-before-1.tar.xz")
    copy = tmp_path / "copy.tar"
    with tarfile.open(copy, "w") as archive:
        files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        files.pop("lock", None)
        for name, path in files.items():
            archive.add(path, name)
        (tmp_path / "digests.json").write_text(
            json.dumps({name: digest(path.read_bytes()) for name, path in files.items()})
        )
        archive.add(tmp_path / "digests.json", "digests.json")
    before = contents(folder)
    for arguments in (
        ("run", "--data", folder, "--port", "0"),
        ("check", "--data", folder),
        ("backup", tmp_path / "new.tar", "--data", folder),
        ("restore", copy, "--data", tmp_path / "restored"),
    ):
        ended = command(*arguments)
        assert (ended.returncode, "Traceback" in ended.stderr) == (1, False), ended.stderr
        assert "made by a release before the first one: they say revision 1" in ended.stderr
        assert " differs). Run the release that made them" in ended.stderr
    assert contents(folder) == before
    assert not (tmp_path / "restored").exists()
    assert not (tmp_path / "new.tar").exists()


def noted_just_now(state):
    """Move what a device noted to now, as its deletions and events go with their age; return the connection."""
    database = sqlite3.connect(state / "state.sqlite3")  # open, or its write-ahead log would not stay as it was left
    with database:
        ((newest,),) = database.execute("SELECT max(at) FROM renamings")
        later = time.time() - newest
        database.execute("UPDATE renamings SET at = at + ?", (later,))
        database.execute("UPDATE events SET time = time + ?, ended = ended + ?", (later, later))
    return database


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_goes_on_with_what_every_version_left(tmp_path, kept, name):
    folder, facts = kept(name)
    head = (folder / "edge.toml").read_text().partition("[microphone]")[0]
    daemon = EdgeDaemon(folder, folder / "bundle.auricle", "")
    daemon.config.write_text(head + configuration(folder))
    for label in ("yes", "no"):
        write_clips(folder / "played", label, 4, 2)
    old = json.loads(daemon.command("status", "--json", check=False).stdout)
    assert (old["running"], {"yes", "no"} <= set(old["model"]["labels"])) == (False, True)
    with contextlib.closing(noted_just_now(daemon.state)), daemon:
        daemon.start(os.environ)
        wait_for(lambda: sum(found["kind"] == "detected" for found in daemon.events()) >= 3, what="some events")
        assert set(facts["clips"]) <= {
            str(path.relative_to(daemon.state)) for path in (daemon.state / "clips").rglob("*.wav")
        }
        assert daemon.command("clips", "undo").returncode == 0  # the deletion of "halt"
        wait_for(lambda: "halt" in daemon.labels(), what="the label whose deletion was undone")
        assert daemon.end() == 0
    assert "Traceback" not in daemon.log()
    rows = Database(daemon.state / "state.sqlite3").rows("SELECT kind FROM events WHERE kind = 'detected'")
    assert len(rows) >= facts["events"] + 3
    Database(tmp_path / "new.sqlite3").set_note("x", 1)
    assert schema(daemon.state / "state.sqlite3") == schema(tmp_path / "new.sqlite3")


def _identity_of_before(state):
    content = json.loads(read_twice(state / "identity.json")) | {"next_secret": "x"}
    write_twice(state / "identity.json", json.dumps(content).encode())


def _model_of_before(state):
    arrays, document = unpack(read_twice(state / "model.safetensors"))
    del document["known"]
    write_twice(state / "model.safetensors", pack(arrays, document))


def _prototypes_of_before(state):
    arrays, document = unpack(read_twice(state / "model.safetensors"))
    arrays = {name: array[:, 0] if name.startswith("prototype/") else array for name, array in arrays.items()}
    write_twice(state / "model.safetensors", pack(arrays, document))


def _model_of_later(state):
    arrays, document = unpack(read_twice(state / "model.safetensors"))
    write_twice(state / "model.safetensors", pack(arrays, document | {"revision": 1_000}))


def _tables_of_later(state):
    with contextlib.closing(sqlite3.connect(state / "state.sqlite3")) as database:
        database.execute("PRAGMA user_version = 1000")


@pytest.mark.parametrize(
    ("changed", "file"),
    [
        *((None, "identity.json"), (_identity_of_before, "identity.json"), (_model_of_before, "model.safetensors")),
        *((_prototypes_of_before, "model.safetensors"), (_model_of_later, "model.safetensors")),
        (_tables_of_later, "state.sqlite3"),
    ],
)
def test_a_state_of_another_release_is_refused_by_name_and_left_as_it_is(kept, changed, file):
    folder, _ = kept("device-1.tar.xz")
    if changed is None:
        kept("device-before-1.tar.xz")
    else:
        changed(folder / "state")
    daemon = EdgeDaemon(folder, folder / "bundle.auricle", configuration(folder))
    (folder / "played").mkdir()
    write_clips(folder / "played", "yes", 1, 2)
    before = contents(folder)
    for program in ("run", "status"):
        ended = daemon.command(program, check=False)
        assert (ended.returncode, "Traceback" in ended.stderr) == (1, False), ended.stderr
        assert f"{folder / 'state' / file} is of another release" in ended.stderr
    assert contents(folder) == before


def test_a_status_that_another_release_wrote_is_named(kept):
    folder, _ = kept("device-1.tar.xz")
    path = folder / "state" / "status.json"
    status = json.loads(path.read_bytes())
    del status["sha256"], status["model"]["known"]
    path.write_text(json.dumps(status | {"sha256": digest(json.dumps(status).encode())}))
    ended = EdgeDaemon(folder, folder / "bundle.auricle", "").command("status", check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert "status.json is of another release of Auricle (it lacks known); start the daemon again" in ended.stderr
