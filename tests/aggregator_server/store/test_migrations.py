"""A data folder of an earlier release: its tables are changed, its rows stay, and its open round ends."""

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator_server.fleet.classes import list_classes
from aggregator_server.fleet.devices import list_devices
from aggregator_server.rounds.schedules import list_schedules
from aggregator_server.rounds.views.replies import describe_round, list_rounds, summarise_round
from aggregator_server.store import Store, migrations
from aggregator_server.store.database import MANAGED
from fleet_protocol.messages import Versions
from tests.support.core_fleet import CoreFleet

# Made by the releases whose tables have these versions: a round that is done, a shared model, a round with two of four
# uploads.
OLD = {version: Path(__file__).parent / f"data_folder_version_{version}.tar.xz" for version in (3, 4)}
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


def unpacked(version, tmp_path):
    with tarfile.open(OLD[version]) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@pytest.fixture(params=OLD)
def folder(request, tmp_path):
    return unpacked(request.param, tmp_path)


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


def test_rows_of_version_3_stay_the_open_round_ends_and_the_next_one_goes_on_from_there(tmp_path):
    fleet = CoreFleet.reopened(unpacked(3, tmp_path))
    assert [info.name for info in list_classes(fleet.store)] == ["word 0", "word 1", "word 2", "word 3", "Stop", "go"]
    assert summarise_round(fleet.store, 1).state == "done"
    ended = summarise_round(fleet.store, 2)
    assert (ended.state, "newer release" in ended.reason) == ("failed", True)
    assert fleet.run_round(300.0) == 3
    assert set(describe_round(fleet.store, 3).accuracies) == {device.device_id for device in fleet.devices}


def test_an_open_round_of_version_4_goes_on_and_its_devices_are_known_to_be_outdated(tmp_path):
    fleet = CoreFleet.reopened(unpacked(4, tmp_path))
    assert summarise_round(fleet.store, 2).state == "open"
    assert all(found.outdated and found.versions == Versions() for found in list_devices(fleet.store))
    for device in fleet.devices[2:]:
        fleet.upload(device, 300.0)
    assert fleet.advance(301.0) == 2
    assert summarise_round(fleet.store, 2).state == "done"


def test_what_operators_did_and_series_of_rounds_get_tables_of_their_own(tmp_path):
    folder = unpacked(4, tmp_path)
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(rounds)") if row[1] != "round_id"]
        copied = f"INSERT INTO rounds (round_id, {', '.join(names)}) SELECT ?, {', '.join(names)} FROM rounds"
        plan = database.execute("SELECT plan FROM rounds WHERE round_id = 2").fetchone()[0]
        merging = json.loads(plan) | {"rounds": "continuous", "every_s": 3600.0, "selection": {"name": "all"}}
        details = json.dumps({"betas": {}, "operation": {"without_devices": ["a"]}})
        database.execute("UPDATE rounds SET state = 'failed', reason = 'cancelled', closed_at = 5.0 WHERE round_id = 2")
        database.execute(f"{copied} WHERE round_id = 1", (3,))
        database.execute(
            "UPDATE rounds SET operation = 'restore', restores = 1, details = ? WHERE round_id = 3", (details,)
        )
        for number, state, series in ((4, "failed", 4), (5, "done", 5), (6, "open", 5)):
            database.execute(f"{copied} WHERE round_id = 2", (number,))
            database.execute(
                "UPDATE rounds SET state = ?, series = ?, strategy = 'prototypes', plan = ?, deadline_at = NULL, "
                "opened_at = ? WHERE round_id = ?",
                (state, series, json.dumps(merging), 100.0 + number, number),
            )
        database.commit()
    store = Store(folder)
    found = {info.round_id: info for info in list_rounds(store, None, 9)}
    assert [(info.operation, info.restores) for info in (found[1], found[3])] == [(None, None), ("restore", 1)]
    assert describe_round(store, 3).operation == {"without_devices": ["a"]}
    assert [(found[number].series, found[number].schedule) for number in (2, 4, 5, 6)] == [
        (None, None),
        (4, 1),
        (5, 2),
        (5, 2),
    ]
    (schedule,) = list_schedules(store)  # the other one had ended
    assert (schedule.schedule_id, schedule.continuous, schedule.last_round) == (2, True, 6)
    assert (schedule.round.strategy, schedule.round.rounds, schedule.round.every_s) == (
        "prototypes",
        "continuous",
        3600,
    )


def test_the_second_start_changes_nothing(folder):
    for _ in range(2):
        Store(folder).close()
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrations.newest(),)]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_a_change_that_was_killed_anywhere_is_made_by_the_next_start(folder):
    before = tables(folder)
    for steps in range(0, 120, 12):
        run = subprocess.run([sys.executable, "-c", OPEN, str(folder), str(steps)], capture_output=True, text=True)
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, run.stderr
        assert tables(folder) == before
    assert run.stdout == "opened\n"
    assert steps > 3
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() in [(MANAGED,), (3,)]


@pytest.mark.parametrize(
    ("works_with", "oldest"),
    [
        ({}, "5"),
        ({"5": "4"}, "4"),
        ({"5": "4", "4": "3"}, "4"),
        ({"4": "3"}, "5"),
        ({"5": "3"}, "4"),  # the change before it was none that the oldest release can go on with
        ({"5": "3", "4": "3"}, "3"),
        ({"5": "2", "4": "2", "3": "2"}, "2"),
    ],
)
def test_tables_can_be_used_by_the_releases_that_every_change_since_leaves_at_work(monkeypatch, works_with, oldest):
    class Scripts:
        """Revisions 2 to 5, the newest first."""

        def walk_revisions(self):
            for number in "5432":
                said = {"works_with": works_with[number]} if number in works_with else {}
                yield SimpleNamespace(revision=number, module=SimpleNamespace(**said))

    monkeypatch.setattr(migrations, "_scripts", Scripts)
    assert migrations.oldest() == oldest
