"""A file that somebody names is read up to a bound, and nothing that never ends or comes."""

import os
from pathlib import Path

import pytest

from fleet_protocol.bounded_files import read_bounded, require_regular


def test_only_regular_files_up_to_a_bound_pass(tmp_path):
    path, pipe = tmp_path / "file", tmp_path / "pipe"
    path.write_bytes(b"1234")
    os.mkfifo(pipe)
    require_regular(path, 4)
    for odd, most, message in (
        (path, 3, "file has more than 3 bytes"),
        (pipe, 4, "pipe is no regular file"),
        (tmp_path, 4, "is no regular file"),
        (Path("/dev/zero"), 4, "/dev/zero is no regular file"),
        (tmp_path / "none", 4, "No such file"),
    ):
        with pytest.raises(OSError, match=message):
            require_regular(odd, most)


def test_no_more_than_a_bound_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"1234")
    assert read_bounded(tmp_path / "file", 4) == b"1234"
    with pytest.raises(OSError, match="/dev/zero has more than 4 bytes, the most that are read"):
        read_bounded(Path("/dev/zero"), 4)
