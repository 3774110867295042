"""What a model learned comes back whole, or is refused with a reason."""

import dataclasses

import numpy as np
import pytest

from edge_client.errors import StateError
from edge_client.model.prototypes import Prototype
from edge_client.storage.checked_files import read_twice, write_twice
from edge_client.storage.saved_model import ModelStore, Progress
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.tensors import pack, unpack


def test_model_and_progress_come_back_together(tmp_path, bundles):
    store = ModelStore(tmp_path)
    first = store.load(bundles["cnn1"])
    features = first.bundle.manifest.feature_settings.digest
    assert first.progress == Progress(architecture="cnn1", label_map=LabelMap(32), features=features)
    assert first.listening == first.bundle.weights
    trained = {name: array + 1 for name, array in first.bundle.weights.items()}
    listening = {name: array + 2 for name, array in first.bundle.weights.items()}
    labels = LabelMap(32).add("yes", "yes").add("siren")
    rows, before = np.arange(52, dtype=np.float32).reshape(2, 2, 13), np.arange(13, dtype=np.float32)[None]
    yes = Prototype(rows, before, Prototype(rows[:1] + 1, before + 1), neutral=0.25)
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
        prototypes={"yes": yes},
        background_trained=True,
    )
    store.save(trained, listening, saved)
    again = store.load(bundles["cnn1"])
    found = again.progress.for_listening.prototypes["yes"]
    for one, wanted in zip((*found[:2], *found.rejected[:2]), (*yes[:2], *yes.rejected[:2]), strict=True):
        np.testing.assert_array_equal(one, wanted, strict=True)
    assert found.rejected.rejected is None
    assert found.neutral == 0.25
    assert not dataclasses.replace(again.progress, background_trained=False).for_listening.prototypes
    assert again.progress == saved
    assert store.taught() == "0123456789abcdef"
    assert again.progress.listening_labels.mask[:3].tolist() == [1, 0, 0]  # what it never learned is off
    assert all(np.array_equal(again.bundle.weights[name], trained[name]) for name in trained)
    assert all(np.array_equal(again.listening[name], listening[name]) for name in trained)


def test_what_an_earlier_release_taught_is_heard_as_it_was_until_it_is_taught_anew(tmp_path, bundles):
    store = ModelStore(tmp_path)
    saved = store.load(bundles["cnn1"])
    rows = np.ones((1, 2, 13), np.float32)
    progress = dataclasses.replace(
        saved.progress, taught="0123456789abcdef", prototypes={"yes": Prototype(rows, rows[0])}
    )
    store.save(saved.bundle.weights, saved.listening, progress)
    assert store.taught() == "0123456789abcdef"
    arrays, document = unpack(read_twice(store.path))
    del arrays["before/yes"], arrays["neutral/yes"], document["teaching"]
    write_twice(store.path, pack(arrays, document))
    found = store.load(bundles["cnn1"]).progress.prototypes["yes"]
    np.testing.assert_array_equal(found.rows, rows)
    assert not found.before.any()
    assert found.neutral == 1.0
    assert store.taught() == ""  # so the daemon learns the clips again
    assert found.after is None
    after = {"after/yes": np.ones((2, 13), np.float32)}
    write_twice(store.path, pack(arrays | after, document))
    np.testing.assert_array_equal(store.load(bundles["cnn1"]).progress.prototypes["yes"].after, after["after/yes"])
    write_twice(store.path, pack(arrays | {"after/yes": np.ones((2, 12), np.float32)}, document))
    with pytest.raises(StateError):
        store.load(bundles["cnn1"])
    for before, states in ((rows[0, 0], 1), (np.zeros_like(rows[0, 0]), 0)):  # of a release that knew one state
        write_twice(store.path, pack(arrays | {"before/yes": before}, document))
        assert store.load(bundles["cnn1"]).progress.prototypes["yes"].before.shape == (states, 13)


def test_a_model_of_another_front_end_is_refused_until_the_daemon_begins_anew(tmp_path):
    old, new = find_bundle("base"), find_bundle("base_int8")  # the same head on features that only look the same
    store = ModelStore(tmp_path)
    assert not store.begin_anew(old)
    saved = store.load(old)
    labels = saved.progress.label_map.add("siren")
    progress = dataclasses.replace(saved.progress, label_map=labels, contributed=3, learned=2, taught="0123")
    store.save(saved.bundle.weights, {name: array + 1 for name, array in saved.listening.items()}, progress)
    with pytest.raises(StateError, match=r"another front end than that of .*base_int8"):
        store.load(new)
    assert not store.begin_anew(old)
    assert store.begin_anew(new)
    again = store.load(new)
    assert (again.progress.contributed, again.progress.learned) == (3, 2)
    assert again.progress.label_map.names == ()
    assert store.taught() == ""
    assert all(np.array_equal(again.listening[name], again.bundle.weights[name]) for name in again.listening)
    assert not store.begin_anew(new)


def test_labels_with_clips_keep_their_slots_and_classes_on_another_front_end(tmp_path, bundles):
    store = ModelStore(tmp_path)
    saved = store.load(bundles["cnn1"])
    labels = LabelMap(32).add("siren", "c4").add("adopted", "c5").add("bell").add("adopted too", "c6")
    store.save(saved.bundle.weights, saved.listening, dataclasses.replace(saved.progress, label_map=labels))
    base = find_bundle("base")
    assert store.begin_anew(base, ("siren", "bell"))  # of another architecture, too
    progress = store.load(base).progress
    assert progress.label_map.labels == ("siren", "bell")
    assert progress.label_map.slot_of("bell") == 2  # as it was reported
    assert progress.label_map.class_ids[0] == "c4"
    assert "c5" not in progress.label_map.class_ids
    assert progress.listening_labels.mask.sum() == 0  # nothing is learned yet
