"""Copies of a data folder: whole, of a running server too, refused where they are damaged; so many and no more."""

import fcntl
import json
import os
import stat

import pytest

from aggregator_server.cli import main
from aggregator_server.errors import BackupError
from aggregator_server.store.location import copied_at
from aggregator_server.upkeep.backup import back_up, back_up_into, restore
from aggregator_server.upkeep.check import check
from tests.support.aggregator_process import FakeDevice, Fleet
from tests.support.core_fleet import between_rounds

DAY_S = 86_400.0
NOON = 1_795_000_000.0


@pytest.fixture
def folder(tmp_path):
    """A round that is done, and one with two of four uploads."""
    between_rounds(tmp_path / "data", uploads=2)
    (tmp_path / "data" / "tokens.json").write_text('{"admin": "a", "enrol": "b"}')
    (tmp_path / "data" / "keys").mkdir()
    (tmp_path / "data" / "keys" / "authority.pem").write_text("secret")
    return tmp_path / "data"


def test_a_backup_is_the_folder_again(folder, tmp_path):
    back_up(folder, tmp_path / "copy.tar")
    restore(tmp_path / "copy.tar", tmp_path / "again")
    assert all(
        stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
        for path in [tmp_path / "again", *(tmp_path / "again").rglob("*")]
    )
    assert check(tmp_path / "again") == []
    assert (tmp_path / "again" / "tokens.json").read_text() == (folder / "tokens.json").read_text()
    assert (tmp_path / "again" / "keys" / "authority.pem").read_text() == "secret"
    assert stat.S_IMODE((tmp_path / "copy.tar").stat().st_mode) == 0o600  # for its owner alone


def test_a_running_server_is_backed_up_in_the_middle_of_a_round(start_aggregator, tmp_path):
    aggregator = start_aggregator("data")
    fleet = Fleet(aggregator, [FakeDevice(number, ("c0", "c1")) for number in (1, 2)]).ready()
    fleet.run_round()
    fleet.open_round()
    fleet.upload(fleet.devices[0], fleet.work(fleet.devices[0])).raise_for_status()
    assert main(["backup", str(tmp_path / "copy.tar"), "--data", str(tmp_path / "data")]) == 0
    aggregator.stop()
    assert main(["restore", str(tmp_path / "copy.tar"), "--data", str(tmp_path / "again")]) == 0
    fleet.aggregator = start_aggregator("again")
    fleet.reconnect()
    fleet.upload(fleet.devices[1], fleet.work(fleet.devices[1])).raise_for_status()
    work = fleet.work(fleet.devices[0])
    assert (work["kind"], work["round_id"]) == ("learn", 2)


def test_what_is_there_is_not_overwritten_and_a_typing_error_makes_no_folder(folder, tmp_path, capsys):
    back_up(folder, tmp_path / "copy.tar")
    assert main(["backup", str(tmp_path / "copy.tar"), "--data", str(folder)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "copy.tar"), "--data", str(folder)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "other.tar"), "--data", str(tmp_path / "typo")]) == 1
    assert "no data folder" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    assert not (tmp_path / "other.tar").exists()


def test_a_damaged_folder_is_not_backed_up_silently(folder, tmp_path):
    blob = max((folder / "blobs").rglob("*"), key=lambda path: path.stat().st_size)
    os.truncate(blob, 10)
    with pytest.raises(BackupError, match=f"{blob.name}.*missing or damaged"):
        back_up(folder, tmp_path / "copy.tar")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder that no test changes."""
    data = tmp_path_factory.mktemp("fleet") / "data"
    between_rounds(data, uploads=2)
    return data


def names(copies):
    return sorted(path.name for path in copies.iterdir())


def test_the_newest_copies_stay_and_each_is_the_folder_again(whole, tmp_path):
    copies = tmp_path / "copies"
    made = [back_up_into(whole, copies, 3, NOON + day * DAY_S) for day in range(5)]
    assert names(copies) == [path.name for path in made[2:]]
    assert copies.stat().st_mode & 0o777 == 0o700
    restore(made[-1], tmp_path / "again")
    assert check(tmp_path / "again") == []
    assert copied_at(whole) > 0
    assert copied_at(tmp_path / "again") == 0  # a moved folder has no copy of its own yet


def test_copies_within_the_data_folder_are_not_copied_again(folder, tmp_path):
    copies = folder / "copies"
    sizes = {back_up_into(folder, copies, 9, NOON + day * DAY_S).stat().st_size for day in range(3)}
    back_up(folder, folder / "before the move.tar")
    sizes.add((folder / "before the move.tar").stat().st_size)
    (copies / ".auricle-20260101T000000Z.tar.0123abcd").write_bytes(b"half-written" * 10_000)
    sizes.add(back_up_into(folder, copies, 9, NOON + 9 * DAY_S).stat().st_size)
    assert len(sizes) == 1, sizes
    restore(folder / "before the move.tar", tmp_path / "again")
    assert check(tmp_path / "again") == []
    assert (tmp_path / "again" / "keys" / "authority.pem").exists()
    assert not (tmp_path / "again" / "copies").exists()


def test_what_a_killed_backup_left_goes_and_what_is_not_a_copy_stays(whole, tmp_path):
    left = (".auricle-20260101T000000Z.tar.0123abcd", ".auricle-20260101T000000Z.tar.0123abcd.db")
    own = ("auricle-before-the-move.tar", "auricle-20260101T000000Z.tar.gz", "notes")
    for name in (*left, *own):
        (tmp_path / name).write_bytes(b"x")
    for day in range(3):
        made = back_up_into(whole, tmp_path, 1, NOON + day * DAY_S)
    assert names(tmp_path) == sorted((*own, made.name))


def test_a_clock_that_was_set_back_costs_not_the_copy_that_was_just_made(whole, tmp_path):
    for seconds in (NOON, NOON + DAY_S, 0.0):
        made = back_up_into(whole, tmp_path, 2, seconds)
    assert names(tmp_path) == [made.name, "auricle-20261119T110640Z.tar"]


def test_two_backups_at_once_and_senseless_options_are_refused(whole, tmp_path, capsys):
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(BackupError, match="another backup"):
        back_up_into(whole, tmp_path, 2, NOON)
    os.close(held)
    file = tmp_path / "file"
    file.touch()
    for words, said in (
        ([tmp_path, "--keep", 0], "--keep must be at least 1, not 0"),
        ([file, "--keep", 2], "is a file"),
    ):
        assert main(["backup", *map(str, words), "--data", str(whole)]) == 1
        assert said in capsys.readouterr().err
    (tmp_path / "copies").mkdir()
    assert main(["backup", str(tmp_path / "copies"), "--keep", "2", "--data", str(whole), "--json"]) == 0
    (copy,) = (tmp_path / "copies").iterdir()
    said = json.loads(capsys.readouterr().out)
    assert said == {"file": str(copy), "bytes": copy.stat().st_size}
