"""What is damaged in a data folder is named, and mended where no backup is needed."""

import contextlib
import json
import sqlite3

import pytest

from aggregator_server.cli import main
from aggregator_server.errors import BackupError
from aggregator_server.store.opening import open_store
from aggregator_server.upkeep.check import check
from tests.support.core_fleet import between_rounds
from tests.support.flips import flips


@pytest.fixture
def fleet(tmp_path):
    """A round that is done, and one with three of four uploads."""
    return between_rounds(tmp_path / "data", uploads=3)


@pytest.fixture
def folder(fleet, tmp_path):
    return tmp_path / "data"


def a_blob(folder, query):
    """The path of a blob that a query finds."""
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        sha256 = database.execute(query).fetchone()[0]
    return folder / "blobs" / sha256[:2] / sha256


def test_a_whole_folder_has_no_findings_and_a_server_may_run_beside_a_check_and_not_beside_a_repair(folder, capsys):
    assert check(folder) == []
    assert check(folder, repair=True) == []
    with contextlib.closing(open_store(folder)):
        assert main(["check", "--data", str(folder)]) == 0
        assert "nothing is damaged" in capsys.readouterr().out
        with pytest.raises(BackupError, match="stop it before a repair"):
            check(folder, repair=True)


def test_a_damaged_upload_of_the_open_round_is_sent_again(fleet, folder):
    upload = a_blob(folder, "SELECT upload FROM participants WHERE round_id = 2")
    upload.write_bytes(next(flips(upload.read_bytes(), 1, seed=1)))
    (finding,) = check(folder)
    assert upload.name in finding.what
    assert "--repair" in finding.way_out
    assert [finding.repaired for finding in check(folder, repair=True)] == [True]
    assert check(folder) == []
    fleet.store = open_store(folder)
    for device in fleet.devices[:1] + fleet.devices[3:]:
        fleet.upload(device, 202.0)
    assert fleet.advance() == 2


def test_what_only_a_backup_brings_back_is_said(folder, capsys):
    consensus = a_blob(folder, "SELECT result_consensus FROM rounds WHERE round_id = 1")
    consensus.unlink()
    for arguments in ([], ["--repair"]):
        assert main(["check", "--data", str(folder), "--json", *arguments]) == 2
        (finding,) = json.loads(capsys.readouterr().out)
        assert consensus.name in finding["what"]
        assert "round" in finding["what"]
        assert "backup" in finding["way_out"]
        assert finding["repaired"] is False


def test_a_blob_that_nothing_needs_is_removed(folder):
    left = folder / "blobs" / "ff" / ("f" * 64)
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"left")
    assert [left.name in finding.what for finding in check(folder)] == [True]
    check(folder, repair=True)
    assert not left.exists()
    assert check(folder) == []
