"""What a device must not lose is whole on the disk, and readable by its owner alone."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from edge_client.errors import StateError
from edge_client.storage.checked_files import copy_of, read_checked
from edge_client.storage.device_state import DeviceState, Progress
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import digest, pack, unpack


def test_the_identity_is_drawn_once_and_private(tmp_path):
    state = DeviceState(tmp_path / "state")
    first = state.identity()
    assert DeviceState(tmp_path / "state").identity() == first
    assert len(first.device_id) == 32
    assert len(first.secret) >= 32
    assert (tmp_path / "state" / "identity.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_the_key_of_the_noise_is_drawn_once_and_private(tmp_path):
    keys = {DeviceState(tmp_path / name).noise_key() for name in ("a", "a", "b")}
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 2
    assert (tmp_path / "a" / "noise.key").stat().st_mode & 0o077 == 0


def test_model_and_progress_come_back_together(tmp_path, bundles):
    state = DeviceState(tmp_path)
    first = state.load_model(bundles["cnn1"])
    features = first.bundle.manifest.feature_settings.digest
    assert first.progress == Progress(architecture="cnn1", label_map=LabelMap(32), features=features)
    assert first.listening == first.bundle.weights
    trained = {name: array + 1 for name, array in first.bundle.weights.items()}
    listening = {name: array + 2 for name, array in first.bundle.weights.items()}
    labels = LabelMap(32).add("yes", "yes").add("siren")
    saved = Progress(
        architecture="cnn1",
        label_map=labels,
        contributed=3,
        learned=2,
        taught="0123456789abcdef",
        fine_tuned=1,
        features=features,
        tails={"yes": (3.5, 0.75)},
        unheard=(1,),
        judged={"kept_own": 1.0, "public_after": 30.5},
    )
    state.save_model(trained, listening, saved)
    again = state.load_model(bundles["cnn1"])
    assert again.progress == saved
    assert state.taught() == "0123456789abcdef"
    assert again.progress.listening_labels.mask[:3].tolist() == [1, 0, 0]  # what it never learned is off
    assert all(np.array_equal(again.bundle.weights[name], trained[name]) for name in trained)
    assert all(np.array_equal(again.listening[name], listening[name]) for name in trained)


def test_a_model_that_was_saved_before_there_was_teaching_or_fine_tuning_still_loads(tmp_path, bundles):
    state = DeviceState(tmp_path)
    saved = state.load_model(bundles["cnn1"])
    state.save_model(saved.bundle.weights, saved.listening, dataclasses.replace(saved.progress, contributed=4))
    arrays, document = unpack(read_checked(tmp_path / "model.safetensors"))
    copy_of(tmp_path / "model.safetensors").unlink()
    for name in ("taught", "fine_tuned", "features", "tails", "unheard", "judged"):
        del document[name]
    write_durably(tmp_path / "model.safetensors", pack(arrays, document))
    assert state.load_model(bundles["cnn1"]).progress == Progress(
        architecture="cnn1", label_map=LabelMap(32), contributed=4, features=saved.progress.features
    )


def test_a_model_of_another_front_end_is_refused_until_the_daemon_begins_anew(tmp_path):
    old, new = find_bundle("base"), find_bundle("base_int8")  # the same head on features that only look the same
    state = DeviceState(tmp_path)
    assert not state.follow_front_end(old)
    saved = state.load_model(old)
    labels = saved.progress.label_map.add("siren")
    progress = dataclasses.replace(saved.progress, label_map=labels, contributed=3, learned=2, taught="0123")
    state.save_model(saved.bundle.weights, {name: array + 1 for name, array in saved.listening.items()}, progress)
    with pytest.raises(StateError, match=r"another front end than that of .*base_int8"):
        state.load_model(new)
    assert not state.follow_front_end(old)
    assert state.follow_front_end(new)
    again = state.load_model(new)
    assert (again.progress.contributed, again.progress.learned) == (3, 2)
    assert again.progress.label_map.names == ()
    assert state.taught() == ""
    assert all(np.array_equal(again.listening[name], again.bundle.weights[name]) for name in again.listening)
    assert not state.follow_front_end(new)


def test_a_model_of_another_architecture_is_kept_when_a_daemon_starts(tmp_path, bundles):
    state = DeviceState(tmp_path)
    saved = state.load_model(bundles["cnn1"])
    state.save_model(saved.bundle.weights, saved.listening, saved.progress)
    assert not state.follow_front_end(find_bundle("base"))
    with pytest.raises(StateError, match="cnn1 that does not fit"):
        state.load_model(find_bundle("base"))
    assert state.taught() == ""


def test_a_model_of_another_bundle_is_refused_and_kept(tmp_path, bundles):
    state = DeviceState(tmp_path)
    saved = state.load_model(bundles["cnn1"])
    state.save_model(saved.bundle.weights, saved.listening, saved.progress)
    with pytest.raises(StateError, match="cnn1 that does not fit"):
        state.load_model(bundles["cnn3"])
    assert state.load_model(bundles["cnn1"]).progress == saved.progress


def test_a_damaged_model_is_named(tmp_path, bundles):
    (tmp_path / "model.safetensors").write_bytes(b"not one")
    with pytest.raises(StateError, match=r"model\.safetensors is damaged"):
        DeviceState(tmp_path).load_model(bundles["cnn1"])


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


def test_blobs_that_are_not_wanted_stay_only_as_far_as_there_is_room_for_them(tmp_path):
    state = DeviceState(tmp_path)
    names = []
    for age, content in enumerate((b"new", b"older", b"oldest")):
        names.append(digest(content))
        write_durably(state.blob_path(names[-1]), content)
        os.utime(state.blob_path(names[-1]), (1_000 - age, 1_000 - age))
    state.keep_blobs({names[2]}, spare_bytes=7)
    assert [state.has_blob(name) for name in names] == [True, False, True]
    state.keep_blobs({names[2]})
    assert [state.has_blob(name) for name in names] == [False, False, True]
