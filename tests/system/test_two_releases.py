"""An upgrade while the fleet goes on: servers of this release beside one of the next, on the same database and store.

The next release is a copy of these sources with a higher version and one more migration.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest

from aggregator_server.store import migrations
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.checkout import ROOT
from tests.support.edge_process import wait_for
from tests.support.state_servers import name_of, options_of

pytestmark = [pytest.mark.scaled, pytest.mark.slow]
VERSION = "99.0.0"
NEXT = str(int(migrations.newest()) + 1)
MIGRATION = f"""
from alembic import op

revision = "{NEXT}"
down_revision = "{migrations.newest()}"
"""
ADDS = f"""
works_with = "{migrations.newest()}"


def upgrade():
    op.execute("ALTER TABLE devices ADD COLUMN colour VARCHAR(20) NOT NULL DEFAULT 'blue'")
"""
RENAMES = """

def upgrade():
    op.execute("ALTER TABLE devices RENAME COLUMN name TO called")
"""
COLUMN = "    secret_since: Mapped[float | None]\n"
NEW_COLUMN = '    colour: Mapped[str] = mapped_column(_text(20), default="green", server_default="blue")\n'


class Release:
    """Sources of the next release in a folder; processes that start within ``used`` run it."""

    def __init__(self, folder, change, column=""):
        self.folder = folder
        for package in ("aggregator_server", "fleet_protocol"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / f"aggregator_server/store/migrations/versions/version_{NEXT}.py").write_text(MIGRATION + change)
        tables = folder / "aggregator_server/store/tables.py"
        assert tables.read_text().count(COLUMN) == 1
        tables.write_text(tables.read_text().replace(COLUMN, COLUMN + column))
        about = folder / f"auricle-{VERSION}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: auricle\nVersion: {VERSION}\n")

    @contextlib.contextmanager
    def used(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.folder))
            patch.setenv("PYTHONSAFEPATH", "1")
            yield

    def run(self, *words):
        with self.used():
            return command(*words)


def command(*words):
    program = "from aggregator_server import cli; raise SystemExit(cli.main())"
    done = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(done, capture_output=True, text=True, check=False, env=dict(os.environ))


def version_of(fleet):
    return fleet.admin.get("/v1/health").json()["version"]


def test_a_server_of_the_next_release_joins_and_those_of_this_one_go_on(tmp_path, start_aggregator, states):
    folder = tmp_path / "fleet"
    database = name_of(states.of(folder))
    devices = [FakeDevice(number, ("c0", "c1")) for number in range(1, 5)]
    old = start_aggregator("old", *options_of(folder))
    at_old = Fleet(old, devices).ready()

    def contribute(*places):
        for device, at in zip(devices, places, strict=True):
            at.upload(device, at.contribution(device)).raise_for_status()

    def done(round_id, *places):
        for at in places:
            wait_for(lambda at=at: at.round(round_id)["summary"]["state"] == "done", 60, "the end of the round")

    first = at_old.open_round()
    at_old.upload(devices[0], at_old.contribution(devices[0])).raise_for_status()
    following = Release(tmp_path / "next", ADDS, NEW_COLUMN)
    with following.used():
        new = start_aggregator("new", *options_of(folder))
    at_new = Fleet(new, devices)
    assert version_of(at_new) == VERSION != version_of(at_old)
    # The open round goes on at both, and so does the next one.
    for device, at in zip(devices[1:], (at_new, at_old, at_new), strict=True):
        at.upload(device, at.contribution(device)).raise_for_status()
    done(first, at_old, at_new)
    second = at_new.open_round()
    contribute(at_new, at_old, at_new, at_old)
    done(second, at_old, at_new)
    # Each writes rows of a table that has changed.
    for at, number in ((at_old, 6), (at_new, 7)):
        enrolled = FakeDevice(number, ("c0",))
        with at.aggregator.client("enrolment-token-of-the-tests") as client:
            client.post("/v1/devices", json=enrolled.enrolment()).raise_for_status()
        at.admin.delete(f"/v1/devices/{enrolled.device_id}").raise_for_status()
    found = "SELECT colour FROM devices ORDER BY device_id DESC LIMIT 2"
    assert states.postgres.ask(database, found) == [("green",), ("blue",)]
    # The new one moves rounds on its own, and one of before may still come back.
    assert old.stop() == 0
    third = at_new.open_round()
    old.start()
    at_old.reconnect()
    contribute(at_old, at_new, at_old, at_new)
    done(third, at_old, at_new)
    copy = command("backup", tmp_path / "copy.tar", "--data", old.data, *options_of(folder))
    assert copy.returncode != 0
    assert "those of a newer release" in copy.stderr


def test_tables_that_this_release_cannot_use_are_changed_once_its_servers_have_ended(
    tmp_path, start_aggregator, states
):
    folder = tmp_path / "fleet"
    old = start_aggregator("old", *options_of(folder))
    at_old = Fleet(old, []).ready()
    following = Release(tmp_path / "next", RENAMES)
    words = ("invitations", "--data", tmp_path / "new", *options_of(folder))
    refused = following.run(*words)
    assert refused.returncode != 0
    assert re.search(r"servers of an older release run on .* Stop all of them", refused.stderr)
    assert at_old.admin.get("/v1/devices").status_code == 200
    assert old.stop() == 0
    assert "Stop all of them" not in following.run(*words).stderr
    noted = states.postgres.ask(name_of(states.of(folder)), "SELECT version_num FROM alembic_version")
    assert noted == [(NEXT,)]
    again = command("run", "--data", old.data, "--port", "0", *options_of(folder))
    assert again.returncode != 0
    assert f"have revision {NEXT}" in again.stderr
    assert "Run the release that wrote them" in again.stderr
