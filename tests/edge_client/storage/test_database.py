"""The device's database, as several programs have it open at once."""

import sqlite3
import subprocess
import sys
from contextlib import closing

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
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


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
