"""A file that does not match its digest is noticed, and its copy takes its place."""

from pathlib import Path

import pytest

from edge_client.errors import DamagedError
from edge_client.storage import checked_files


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def flip(path, place=0):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("data", [b"", b"x", b"\n#sha256 ", bytes(1000)])
def test_content_comes_back_as_it_was_written(path, data):
    checked_files.write_checked(path, data)
    assert checked_files.read_checked(path) == data


@pytest.mark.parametrize("left", [0, 10, 80])
def test_a_file_that_was_cut_short_is_noticed(path, left):
    checked_files.write_checked(path, b"content of a file")
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DamagedError):
        checked_files.read_checked(path)


def test_a_file_that_is_replaced_while_it_is_read_is_not_damaged(path, monkeypatch):
    checked_files.write_checked(path, b"before")

    def opened(self, *mode, open_=Path.open):
        file = open_(self, *mode)
        monkeypatch.undo()
        checked_files.write_checked(path, b"what another process wrote")
        return file

    monkeypatch.setattr(Path, "open", opened)
    assert checked_files.read_checked(path) == b"before"
    assert checked_files.read_checked(path) == b"what another process wrote"


def test_a_copy_that_a_killed_process_left_behind_follows_the_file(path):
    checked_files.write_twice(path, b"old")
    checked_files.write_checked(path, b"new")
    assert checked_files.mend_twice(path) == ""
    assert checked_files.read_checked(checked_files.copy_of(path)) == b"new"


def test_when_both_are_damaged_the_message_names_the_way_out(path):
    checked_files.write_twice(path, b"content")
    flip(path)
    flip(checked_files.copy_of(path))
    with pytest.raises(DamagedError, match="remove both"):
        checked_files.mend_twice(path)


def test_what_its_owner_removed_does_not_come_back(path):
    checked_files.write_twice(path, b"content")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        checked_files.read_file_or_copy(path)
    assert checked_files.mend_twice(path) == ""
    assert not checked_files.copy_of(path).exists()
