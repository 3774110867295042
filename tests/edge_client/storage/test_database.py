"""The device's database, as several programs have it open at once."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from edge_client.storage import database as storage
from edge_client.storage.database import FILE, Database

READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT COUNT(*) FROM candidates").fetchone()[0])
connection.close()
"""


def counted_elsewhere(path):
    """The rows that another program reads, which closes the file again."""
    command = [sys.executable, "-c", READ, str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout)


def add(connection, at):
    names = [column[1] for column in connection.execute("PRAGMA table_info(candidates)")]
    connection.execute(f"INSERT INTO candidates VALUES ({', '.join('?' * len(names))})", (at, *[0] * (len(names) - 1)))


def test_another_program_that_closes_the_file_leaves_the_log_to_who_has_it_open(tmp_path):
    database = Database(tmp_path / FILE)
    with closing(database.open()) as kept:
        add(kept, 1.0)
        with database.changing() as another:  # opened and closed beside the one that stays open
            add(another, 2.0)
        log = tmp_path / f"{FILE}-wal"
        before = log.stat().st_ino
        assert counted_elsewhere(tmp_path / FILE) == 2
        assert log.stat().st_ino == before
        add(kept, 3.0)
        assert counted_elsewhere(tmp_path / FILE) == 3
    with closing(sqlite3.connect(tmp_path / FILE)) as found:
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture
def mounted_read_only(tmp_path, monkeypatch):
    """A database that is read as through a mount that is read-only, where only who may write makes the index."""
    database = Database(tmp_path / FILE)
    with database.changing() as connection:
        add(connection, 1.0)
    meanwhile = []

    def connect(path, *, immutable=False):
        if not immutable and not path.with_name(f"{FILE}-shm").exists():
            refused = sqlite3.OperationalError("unable to open database file")
            refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise refused
        connection = connect_really(path, immutable=immutable)
        while immutable and meanwhile:
            connection.execute("PRAGMA user_version").fetchall()  # what is read until somebody writes
            meanwhile.pop()()
        return connection

    connect_really = storage._connect
    monkeypatch.setattr(storage, "is_read_only", lambda _folder: True)
    monkeypatch.setattr(storage, "_connect", connect)
    return database, meanwhile, lambda: storage.sqlite3.connect(tmp_path / FILE, isolation_level=None)


def numbers(database):
    return [number for (number,) in database.rows("SELECT id FROM candidates")]


def test_a_file_that_nobody_has_open_is_read_where_nothing_may_be_written(mounted_read_only):
    assert numbers(mounted_read_only[0]) == [1]


@pytest.mark.parametrize("ended", [False, True])
def test_what_somebody_writes_while_it_is_read_without_a_lock_is_seen_whole(mounted_read_only, ended):
    database, meanwhile, writer = mounted_read_only
    others = []

    def write():
        others.append(writer())
        add(others[0], 2.0)
        if ended:
            others[0].close()

    meanwhile.append(write)
    assert numbers(database) == [1, 2]
    others[0].close()


def test_a_log_without_its_index_is_not_passed_over(mounted_read_only, tmp_path):
    database, _, writer = mounted_read_only
    with closing(writer()) as other:
        add(other, 2.0)
        (tmp_path / f"{FILE}-shm").rename(tmp_path / "away")  # as on a full disk
        with pytest.raises(OSError, match="unable to open"):
            numbers(database)
