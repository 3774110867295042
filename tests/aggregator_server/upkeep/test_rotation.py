"""The newest copies of a data folder: so many and no more, whatever stopped a backup, and never the disk's end."""

import fcntl
import json
import os
import subprocess

import pytest

from aggregator_server.cli import main
from aggregator_server.errors import BackupError
from aggregator_server.store.last_copy import copied_at
from aggregator_server.upkeep.backup import restore
from aggregator_server.upkeep.check import check
from aggregator_server.upkeep.rotation import back_up_into
from tests.support.core_fleet import between_rounds

DAY_S = 86_400.0
NOON = 1_795_000_000.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = tmp_path_factory.mktemp("fleet") / "data"
    between_rounds(data, uploads=2)
    return data


def names(copies):
    return sorted(path.name for path in copies.iterdir())


def test_the_newest_copies_stay_and_each_is_the_folder_again(folder, tmp_path):
    copies = tmp_path / "copies"
    made = [back_up_into(folder, copies, 3, NOON + day * DAY_S)[0] for day in range(5)]
    assert names(copies) == [path.name for path in made[2:]]
    assert copies.stat().st_mode & 0o777 == 0o700
    restore(made[-1], tmp_path / "again")
    assert check(tmp_path / "again") == []
    assert copied_at(folder) > 0
    assert copied_at(tmp_path / "again") == 0  # a moved folder has no copy of its own yet


def test_what_a_killed_backup_left_goes_and_what_is_not_a_copy_stays(folder, tmp_path):
    left = (".auricle-20260101T000000Z.tar.0123abcd", ".auricle-20260101T000000Z.tar.0123abcd.db")
    own = ("auricle-before-the-move.tar", "auricle-20260101T000000Z.tar.gz", "notes")
    for name in (*left, *own):
        (tmp_path / name).write_bytes(b"x")
    for day in range(3):
        made, _ = back_up_into(folder, tmp_path, 1, NOON + day * DAY_S)
    assert names(tmp_path) == sorted((*own, made.name))


def test_a_clock_that_was_set_back_costs_not_the_copy_that_was_just_made(folder, tmp_path):
    for seconds in (NOON, NOON + DAY_S, 0.0):
        made, _ = back_up_into(folder, tmp_path, 2, seconds)
    assert names(tmp_path) == [made.name, "auricle-20261119T110640Z.tar"]


def test_two_backups_at_once_and_senseless_options_are_refused(folder, tmp_path, capsys):
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(BackupError, match="another backup"):
        back_up_into(folder, tmp_path, 2, NOON)
    os.close(held)
    file = tmp_path / "file"
    file.touch()
    for words, said in (
        ([tmp_path, "--keep", 0], "--keep must be at least 1, not 0"),
        ([file, "--keep", 2], "is a file"),
    ):
        assert main(["backup", *map(str, words), "--data", str(folder)]) == 1
        assert said in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "new"), "--keep", "2", "--data", str(tmp_path)]) == 1
    assert "no data folder" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command_names_the_copy(folder, tmp_path, capsys):
    assert main(["backup", str(tmp_path), "--keep", "2", "--data", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (name,) = names(tmp_path)
    assert said == {"file": str(tmp_path / name), "bytes": (tmp_path / name).stat().st_size, "left_out": []}


def test_a_copy_that_would_take_the_disks_last_room_is_refused_and_those_there_stay(folder, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    try:
        first, _ = back_up_into(folder, disk, 9, NOON)
        room = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - 600_000))
        with pytest.raises(BackupError, match=r"too little space.*MB are free.*another disk"):
            back_up_into(folder, disk, 9, NOON + DAY_S)
        assert names(disk) == [first.name, "filler"]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
