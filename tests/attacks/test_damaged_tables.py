"""A database with pages that were overwritten: it is copied nowhere, and serves nobody."""

import random
import shutil
import sqlite3

import pytest

from aggregator_server.errors import BackupError, StartError
from aggregator_server.store import Store
from aggregator_server.store.database import damage_of
from aggregator_server.upkeep.backup import back_up, restore
from aggregator_server.upkeep.check import check
from aggregator_server.upkeep.rotation import back_up_into
from fleet_protocol.backup_archive import written_backup
from tests.support.core_fleet import between_rounds

PAGE = 4_096
NOON = 1_795_000_000.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet") / "data"
    between_rounds(folder, uploads=2)
    return folder


@pytest.mark.parametrize("seed", range(8))
def test_overwritten_pages_are_seen_and_never_replace_the_last_good_copy(whole, tmp_path, seed):
    folder, copies = tmp_path / "data", tmp_path / "copies"
    shutil.copytree(whole, folder)
    good, _ = back_up_into(folder, copies, 3, NOON)
    overwrite(folder / "auricle.db", random.Random(seed))
    assert check(folder) != []
    for days in range(1, 5):
        with pytest.raises(BackupError, match=rf"is damaged .* the last good copy is {good}"):
            back_up_into(folder, copies, 3, NOON + days * 86_400.0)
    with pytest.raises(BackupError, match="so it was not backed up"):
        back_up(folder, tmp_path / "copy.tar")
    with pytest.raises(StartError, match=rf"no server starts with it; the last good copy is {good}"):
        Store(folder)
    with written_backup(copies / "bad.tar", "digests.json", lambda digests: digests) as bad:
        bad.add_file("auricle.db", folder / "auricle.db")
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
