"""A device's state comes back from a backup as it was, whole, whatever interrupts the restore."""

import dataclasses
import io
import json
import os
import shutil
import sys
import tarfile

import pytest

import edge_client.storage.backup as backup
from edge_client.config import load_config
from edge_client.events import Event
from edge_client.events.journal import Journal, past_events
from edge_client.learning.teaching.room_material import judge_room
from edge_client.room.store import add_wrong_detections, read_wrong_detections
from edge_client.storage.database import ROOM_LEARNED
from edge_client.storage.identity import Membership
from tests.support.edge_commands import EdgeCommands
from tests.support.sounds import write_clips

ADVICE = {"label": "yes", "takes": 3, "lines": []}


@pytest.fixture
def edge(tmp_path, bundles, capsys):
    edge = EdgeCommands(tmp_path, capsys, bundles["cnn1"])
    lived(edge)
    return edge


def lived(edge):
    """Give the device an identity, a fleet, a model with a label, clips, events and something in the trash."""
    edge.state.identity.load()
    edge.state.membership.save(Membership("https://fleet"))
    saved = edge.state.model.load(load_config(edge.config).model.bundle)
    progress = dataclasses.replace(saved.progress, label_map=saved.progress.label_map.add("yes"), learned=3)
    edge.state.model.save(saved.bundle.weights, saved.listening, progress)
    write_clips(edge.folder / "recordings", "yes", 3, seed=1)
    write_clips(edge.folder / "recordings", "no", 2, seed=1)
    edge("import", edge.folder / "recordings")
    edge("clips", "delete", "--label", "no", "--yes")
    edge.state.save_advice([ADVICE])
    add_wrong_detections(edge.state.database, [(2.0, "no")])
    journal = Journal(edge.state.database)
    journal.publish(Event(1e9, "detected", "yes", None, 0.9, -20.0))
    journal.close()


def contents(state):
    """What of a state folder a backup brings back: the journal by its events, the rest by its bytes."""
    folders = ("clips", "unknown", "detected", "outbox")
    names = ("identity.json", "membership.json", "model.safetensors")
    found = {name: (state / name).read_bytes() for name in names if (state / name).exists()}
    for folder in folders:
        paths = [path for path in (state / folder).rglob("*") if path.is_file() and path.name[0] != "."]
        found |= {path.relative_to(state).as_posix(): path.read_bytes() for path in paths}
    return found


def test_a_state_comes_back_as_it_was_and_what_came_later_goes(edge):
    before, heard = contents(edge.state.folder), past_events(edge.state.database, 10)
    file = edge.folder / "device.backup"
    assert "keep it private" in edge("backup", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert "--force replaces it" in edge("backup", file, status=1)
    assert json.loads(edge("backup", file, "--force", "--json"))["files"] == len(before) + 1
    write_clips(edge.folder / "later", "up", 2, seed=1)
    edge("import", edge.folder / "later")
    edge.state.save_advice([])
    (edge.state.folder / "identity.json").write_bytes(b"another device")
    edge.state.room_path.write_bytes(b"heard")  # since, and maybe in another room
    add_wrong_detections(edge.state.database, [(1.0, "yes")])
    judge_room(edge.state, 1.0)
    edge("events", "--forget", "yes", "--yes")
    assert "say --yes" in edge("restore", file, status=1)
    assert "No other device may run" in edge("restore", file, "--yes")
    assert contents(edge.state.folder) == before
    assert not edge.state.room_path.exists()
    assert (read_wrong_detections(edge.state.database), edge.state.database.note(ROOM_LEARNED)) == ([], None)
    assert edge.state.advice() == [ADVICE]
    assert past_events(edge.state.database, 10) == heard
    edge.state.mend()
    assert edge.state.identity.load().device_id in before["identity.json"].decode()
    assert "yes" in edge("clips")
    assert not (edge.state.folder / ".restore").exists()


def test_a_new_card_is_restored_without_a_question(edge):
    before, file = contents(edge.state.folder), edge.folder / "device.backup"
    edge("backup", file)
    shutil.rmtree(edge.state.folder)
    edge("restore", file)
    assert contents(edge.state.folder) == before


def test_a_damaged_file_is_backed_up_from_its_copy(edge):
    whole, file = contents(edge.state.folder), edge.folder / "device.backup"
    path = edge.state.folder / "identity.json"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    edge("backup", file)
    edge("restore", file, "--yes")
    assert contents(edge.state.folder) == whole


def test_a_running_daemon_and_what_is_no_backup_are_refused_and_change_nothing(edge, bundles):
    file = edge.folder / "device.backup"
    edge("backup", file)
    before = contents(edge.state.folder)
    lock = edge.state.lock("daemon")
    assert "another process is at work" in edge("restore", file, "--yes", status=1)
    os.close(lock)
    cut = edge.folder / "cut"
    cut.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "backup of a device" in edge("restore", cut, "--yes", status=1)
    flipped = bytearray(file.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    cut.write_bytes(flipped)
    edge("restore", cut, "--yes", status=1)
    with tarfile.open(cut, "w") as archive:
        archive.addfile(tarfile.TarInfo("clips/.lock"), io.BytesIO(b""))
    assert "no backup of a device" in edge("restore", cut, "--yes", status=1)
    text = edge.config.read_text()
    edge.config.write_text(text.replace(str(bundles["cnn1"]), str(bundles["cnn2"])))
    assert "does not fit" in edge("restore", file, "--yes", status=1)
    edge.config.write_text(text)
    assert contents(edge.state.folder) == before
    assert not (edge.state.folder / ".restore").exists()


def killed_after(lines, state):
    """Commit a restore in a process that ends at once when it has executed so many lines; return whether it was."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    left = [lines]

    def trace(frame, kind, _):
        if frame.f_code.co_filename != backup.__file__:
            return None
        left[0] -= kind == "line"
        if left[0] < 0:
            os._exit(9)
        return trace

    sys.settrace(trace)
    backup.commit_restore(state)
    os._exit(0)


def test_a_restore_that_is_killed_anywhere_leaves_the_old_state_or_is_finished(edge):
    file = edge.folder / "device.backup"
    edge("backup", file)
    restored = contents(edge.state.folder)
    edge("clips", "delete", "--label", "yes", "--yes", "--for-good")
    edge.state.outbox.put(edge.state.outbox.update_path(1), b"an upload")
    old = contents(edge.state.folder)
    seen, lines, killed = set(), 0, True
    while killed:
        place = edge.folder / "copy"
        shutil.copytree(edge.state.folder, place)
        backup.unpack_backup(file, place)
        killed = killed_after(lines, place)
        finished = backup.finish_restore(place)
        found = contents(place)
        assert found == (restored if finished or not killed or found == restored else old)
        seen.add(found == restored)
        shutil.rmtree(place)
        lines += 7
    assert seen == {True, False}
    assert lines > 60
