"""What an owner taught goes to another device in one file: takes, what is not a label, and what he chose."""

import io
import os
import stat
import subprocess
from dataclasses import replace

import pytest

from edge_client.errors import ClipError, QuotaError
from edge_client.owner import Teaching
from edge_client.owner_archive import export_to, take_in
from edge_client.owner_changes import know
from edge_client.owner_undo import changes, undo
from edge_client.storage.owner_choices import Listened
from fleet_protocol.bundle.labels import Slot
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.asked_device import Owner, sound
from tests.support.checkout import ROOT
from tests.support.sounds import RATE
from tests.support.taught_device import Device

WORDS = find_bundle("words")
NIGHT = Listened(hours=("22:00-06:30",))


def clips_of(device):
    """Every clip by its folder."""
    files = device.clips.rglob("*.wav")
    return sorted((path.parent.relative_to(device.clips).as_posix(), path.read_bytes()) for path in files)


@pytest.fixture
def old(tmp_path):
    """A device that was taught two sounds, with a counter-example and a threshold of its own."""
    (tmp_path / "old").mkdir()
    owner = Owner(tmp_path / "old")
    owner.teaching.store.add("_not_/kettle", sound("up"), RATE)
    owner.device.state.choices.set_threshold("bell", 0.7)
    owner.device.state.choices.listen("bell", NIGHT)
    owner.device.state.choices.listen("kettle", Listened(on=False))
    return owner


def another(folder, bundle=None, **sections):
    folder.mkdir()
    return Device(folder, bundle or find_bundle("base"), **sections)


def exported(owner, name="clips.zip"):
    path = owner.device.folder / name
    assert export_to(owner.teaching, path) == []
    return path


def imported(device, path):
    with path.open("rb") as file:
        return take_in(Teaching.open(device.folder / "edge.toml"), file)


def test_all_of_it_arrives_as_it_was_and_can_be_taken_back(old, tmp_path, edge):
    path, new = exported(old), another(tmp_path / "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    edge.config = new.folder / "edge.toml"
    told = edge("clips", "import", path)
    assert "13 clips stored, 0 were there already." in told
    assert clips_of(new) == clips_of(old.device)
    assert new.state.choices.thresholds() == {"bell": 0.7}
    assert new.state.choices.listened() == {"bell": NIGHT, "kettle": Listened(on=False)}
    assert "0 clips stored, 13 were there already." in edge("clips", "import", path)
    assert "taken back: 13 clips were imported" in edge("clips", "undo")
    assert new.state.choices.thresholds() == {}
    assert new.state.choices.listened() == {}
    teaching = Teaching.open(edge.config)
    assert (teaching.store.labels(), teaching.store.rejected_folders()) == ((), ())


def test_sounds_that_were_chosen_go_along_where_the_other_device_knows_them(tmp_path):
    first = another(tmp_path / "first", WORDS)
    know(Teaching.open(first.folder / "edge.toml"), "computer", "helper")
    path = tmp_path / "clips.zip"
    export_to(Teaching.open(first.folder / "edge.toml"), path)
    second, third = another(tmp_path / "second", WORDS), another(tmp_path / "third")
    assert imported(second, path).left_out == []
    assert Teaching.open(second.folder / "edge.toml").chosen == {"helper": "computer"}
    teaching = Teaching.open(second.folder / "edge.toml")
    undo(teaching, changes(teaching)[0])
    assert teaching.chosen == {}
    (line,) = imported(third, path).left_out
    assert "helper is left out as built-in: it is not in this device's bundle" in line


def test_what_the_owner_of_the_other_device_chose_and_taught_stays(old, tmp_path):
    path, new = exported(old), another(tmp_path / "new")
    new.state.choices.set_threshold("bell", 0.9)
    new.state.choices.listen("bell", Listened(on=False))
    own = Teaching.open(new.folder / "edge.toml").store.add("kettle", sound("down"), RATE)[0]
    imported(new, path)
    assert new.state.choices.thresholds() == {"bell": 0.9}
    assert new.state.choices.listened() == dict.fromkeys(("bell", "kettle"), Listened(on=False))
    assert own.exists()
    assert len(list(own.parent.iterdir())) == 7


def test_where_there_is_no_room_or_no_slot_nothing_is_taken(old, tmp_path):
    path, small = exported(old), another(tmp_path / "small", clips="quota_mb = 0.3")
    with pytest.raises(QuotaError):
        imported(small, path)
    full = another(tmp_path / "full")
    teaching = Teaching.open(full.folder / "edge.toml")
    for number in range(teaching.label_map.free - 1):
        teaching.store.add(f"sound {number}", sound("up", number), RATE)
    before = clips_of(full)
    with pytest.raises(ClipError, match="no slot is free for all of bell, kettle"):
        imported(full, path)
    assert (clips_of(small), clips_of(full)) == ([], before)
    assert not changes(Teaching.open(small.folder / "edge.toml"))


def test_sounds_of_the_fleet_make_room_for_it(old, tmp_path):
    new = another(tmp_path / "new")
    teaching = Teaching.open(new.folder / "edge.toml")
    saved, free = teaching.state.model.load(teaching.config.bundle), teaching.label_map.free
    slots = tuple(Slot(f"sound {number}", f"class-{number}") for number in range(free))
    progress = replace(saved.progress, label_map=replace(saved.progress.label_map, slots=slots))
    teaching.state.model.save(saved.bundle.weights, saved.listening, progress)
    assert imported(new, exported(old)).stored.total() == 13


def test_a_file_that_exists_is_not_written_over_and_one_that_is_none_is_refused(old, tmp_path, edge):
    edge.config = old.config
    path = tmp_path / "mine.zip"
    path.write_text("mine")
    assert "exists already" in edge("clips", "export", path, status=1)
    assert path.read_text() == "mine"
    os.mkfifo(tmp_path / "pipe")
    for none in (path, tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        assert "auricle-edge clips export" in edge("clips", "import", none, status=1)


def test_the_documented_copy_of_a_state_folder_is_for_its_owner_alone(old, tmp_path):
    (line,) = [line for line in (ROOT / "docs" / "device.md").read_text().splitlines() if " -czpf " in line]
    command = line.replace("sudo ", "").replace("/var/lib", str(tmp_path)).replace(" auricle'", " old'")
    subprocess.run(["sh", "-c", f"umask 022; {command}"], cwd=tmp_path, check=True)
    assert stat.S_IMODE((tmp_path / "auricle.tar.gz").stat().st_mode) == 0o600


def test_a_device_without_anything_has_nothing_to_export(tmp_path, edge):
    edge.config = another(tmp_path / "empty").folder / "edge.toml"
    assert "nothing to export" in edge("clips", "export", tmp_path / "clips.zip", status=1)
    assert not (tmp_path / "clips.zip").exists()


def test_a_damaged_take_is_left_out_by_name(old, tmp_path):
    damaged = old.teaching.store.add("bell", sound("down"), RATE)[0]
    damaged.write_bytes(damaged.read_bytes()[:200])
    path = tmp_path / "clips.zip"
    (line,) = export_to(old.teaching, path)
    assert damaged.name in line
    new = another(tmp_path / "new")
    with path.open("rb") as file:
        found = take_in(Teaching.open(new.folder / "edge.toml"), io.BytesIO(file.read()))
    assert found.stored.total() == 13
