"""A state folder has one process that works in it, and no half-written files."""

import subprocess
import sys

import pytest

from edge_client.storage.device_state import DeviceState
from fleet_protocol.atomic_files import write_durably


def test_a_failed_write_leaves_the_old_content_and_nothing_half_written(tmp_path):
    path = tmp_path / "file"
    write_durably(path, b"old")
    with pytest.raises(TypeError):
        write_durably(path, "not bytes")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_second_process_is_refused_while_the_first_lives(tmp_path):
    state = DeviceState(tmp_path)
    state.lock("daemon")
    code = (
        "import sys; from pathlib import Path; from edge_client.storage.device_state import DeviceState\n"
        "DeviceState(Path(sys.argv[1])).lock('daemon')"
    )
    second = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert second.returncode != 0
    assert "another process is at work" in second.stderr
