"""A data folder of an earlier release: its tables are changed, its rows stay, and its open round goes on."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from aggregator_server.fleet.classes import list_classes
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.uploads import accept_update
from aggregator_server.rounds.views import describe_round, summarise_round
from aggregator_server.rounds.work import next_work
from aggregator_server.store import Store, migrations
from aggregator_server.store.database import MANAGED
from tests.support.core_fleet import CoreFleet, devices

# Made by release 0.1, whose tables have version 3: a round that is done, a shared model, a round with two of four
# uploads.
OLD = Path(__file__).parent / "data_folder_version_3.tar.xz"
OPEN = """
import sys
from pathlib import Path
from alembic.runtime.migration import MigrationContext
from aggregator_server.store import Store
steps = int(sys.argv[2])
def die(self, *arguments, **named):
    global steps
    steps -= 1
    if steps < 0:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    return kept(self, *arguments, **named)
from sqlalchemy import Connection
kept, Connection.exec_driver_sql = Connection.exec_driver_sql, die
Store(Path(sys.argv[1])).close()
print("opened")
"""


@pytest.fixture
def folder(tmp_path):
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


def tables(folder):
    """Every table's columns, foreign keys and indexes, whatever their order."""
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {}
        for name in names:
            columns = {row[1:4] + row[5:] for row in database.execute(f"PRAGMA table_info({name})")}
            keys = {row[2:5] for row in database.execute(f"PRAGMA foreign_key_list({name})")}
            indexes = {
                (row[2], row[4], tuple(column[2] for column in database.execute(f"PRAGMA index_info('{row[1]}')")))
                for row in database.execute(f"PRAGMA index_list({name})")
            }
            found[name] = columns, keys, indexes
        return found


def test_an_old_folder_gets_the_tables_of_a_new_one(folder, tmp_path):
    Store(tmp_path / "new").close()
    Store(folder).close()
    assert tables(folder) == tables(tmp_path / "new"), "the tables changed: add a migration (CONTRIBUTING.md)"
    assert {"rounds", "devices", "classes", "alembic_version"} <= set(tables(folder))


def test_its_rows_stay_and_its_open_round_ends(folder):
    store = Store(folder)
    fleet = devices()
    assert [info.name for info in list_classes(store)] == ["word 0", "word 1", "word 2", "word 3", "Stop", "go"]
    assert summarise_round(store, 1).state == "done"
    for device in fleet[2:]:
        work = next_work(store, device.device_id, 300.0)
        with store.blobs.receive() as incoming:
            incoming.write(CoreFleet.body(StoredFleet(store), device, work))
            accept_update(store, 2, device.device_id, incoming, 300.0)
    assert advance(store, 301.0) == 2
    assert set(describe_round(store, 2).accuracies) == {device.device_id for device in fleet}
    store.close()


class StoredFleet:
    """What CoreFleet.body looks at."""

    def __init__(self, store):
        self.store = store


def test_the_second_start_changes_nothing(folder):
    for _ in range(2):
        Store(folder).close()
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrations.newest(),)]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_a_change_that_was_killed_anywhere_is_made_by_the_next_start(folder):
    before = tables(folder)
    for steps in range(0, 400, 11):
        run = subprocess.run([sys.executable, "-c", OPEN, str(folder), str(steps)], capture_output=True, text=True)
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, run.stderr
        assert tables(folder) == before
    assert run.stdout == "opened\n"
    assert steps > 3
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() in [(MANAGED,), (3,)]
