"""A state folder has one process that works in it, and no half-written files."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from edge_client.storage import locks
from edge_client.storage.blob_cache import BlobCache
from edge_client.storage.device_state import DeviceState
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.tensors import digest
from tests.support.aggregator_process import SETTINGS
from tests.support.sounds import public_set_of


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


def test_who_only_looks_whether_another_is_at_work_keeps_nobody_out(tmp_path, monkeypatch):
    state, closing = DeviceState(tmp_path), threading.Event()
    os.close(state.lock("daemon"))

    def close_late(descriptor):
        monkeypatch.undo()
        closing.set()
        time.sleep(0.3)
        os.close(descriptor)

    monkeypatch.setattr(locks.os, "close", close_late)
    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(state.locked, "daemon")
        assert closing.wait(180)
        os.close(state.lock("daemon"))
        assert not looking.result(180)


def test_the_identity_is_drawn_once_and_private(tmp_path):
    state = DeviceState(tmp_path / "state")
    first = state.identity.load()
    assert DeviceState(tmp_path / "state").identity.load() == first
    assert len(first.device_id) == 32
    assert len(first.secret) >= 32
    assert (tmp_path / "state" / "identity.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_a_blob_that_is_removed_while_others_are_looked_for_is_passed_over(tmp_path):
    kept = public_set_of(tmp_path / "public", ("yes", "no"), 2, SETTINGS)
    blobs, data = BlobCache(tmp_path / "blobs"), kept.pack()
    write_durably(blobs.path(digest(data)), data)
    blobs.path("f" * 64).symlink_to(tmp_path / "gone")  # listed, and not there when it is looked at
    found = blobs.public_set(kept.settings)
    assert found is not None
    assert found.class_ids == kept.class_ids
    assert blobs.prototypes(kept.settings) is None


def test_blobs_that_are_not_wanted_stay_only_as_far_as_there_is_room_for_them(tmp_path):
    blobs = BlobCache(tmp_path)
    names = []
    for age, content in enumerate((b"new", b"older", b"oldest")):
        names.append(digest(content))
        write_durably(blobs.path(names[-1]), content)
        os.utime(blobs.path(names[-1]), (1_000 - age, 1_000 - age))
    blobs.keep({names[2]}, spare_bytes=7)
    assert [blobs.has(name) for name in names] == [True, False, True]
    blobs.keep({names[2]})
    assert [blobs.has(name) for name in names] == [False, False, True]
