"""A file that does not match its digest is noticed, and its copy takes its place."""

import pytest

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import (
    copy_of,
    mend_twice,
    read_checked,
    read_file_or_copy,
    write_checked,
    write_twice,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def flip(path, place=0):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("data", [b"", b"x", b"\n#sha256 ", bytes(1000)])
def test_content_comes_back_as_it_was_written(path, data):
    write_checked(path, data)
    assert read_checked(path) == data


@pytest.mark.parametrize("left", [0, 10, 80])
def test_a_file_that_was_cut_short_is_noticed(path, left):
    write_checked(path, b"content of a file")
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DamagedError):
        read_checked(path)


def test_a_copy_that_a_killed_process_left_behind_follows_the_file(path):
    write_twice(path, b"old")
    write_checked(path, b"new")
    assert mend_twice(path) == ""
    assert read_checked(copy_of(path)) == b"new"


def test_when_both_are_damaged_the_message_names_the_way_out(path):
    write_twice(path, b"content")
    flip(path)
    flip(copy_of(path))
    with pytest.raises(DamagedError, match="remove both"):
        mend_twice(path)


def test_what_its_owner_removed_does_not_come_back(path):
    write_twice(path, b"content")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_file_or_copy(path)
    assert mend_twice(path) == ""
    assert not copy_of(path).exists()
