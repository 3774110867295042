"""Data impressions are what a device's model believes in; its weights stay as they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.errors import ModelError
from edge_client.learning.data_impressions import class_similarity, soft_labels, synthesise
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.methods.local_methods import NEW_SOUNDS

SETTINGS = {name: setting.default for name, setting in NEW_SOUNDS.items()} | {"impressions": 8, "impression_steps": 80}


def test_class_similarity_by_hand():
    head = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    expected = [[1, 0, 0.5**0.5], [0, 1, 0.5**0.5], [0.5**0.5, 0.5**0.5, 1]]
    assert np.allclose(class_similarity(head), expected)
    assert class_similarity(np.zeros((3, 2))).tolist() == [[0, 0], [0, 0]]


@settings(max_examples=30)
@given(st.integers(2, 8), st.integers(0, 2**16), st.sampled_from([0.1, 0.3, 1.0]))
def test_soft_labels_are_distributions_with_their_largest_entry_at_the_class(classes, seed, scale):
    rng = np.random.default_rng(seed)
    similarity = class_similarity(rng.standard_normal((16, classes)))
    label = int(rng.integers(classes))
    labels = soft_labels(similarity, label, 20, scale, rng)
    assert labels.shape == (20, classes)
    assert np.allclose(labels.sum(axis=1), 1, atol=1e-5)
    assert (labels.argmax(axis=1) == label).all()


def test_labels_that_cannot_be_drawn_are_an_error_that_names_the_way_out():
    similarity = np.array([[0.0, 1.0], [1.0, 1.0]])  # class 0 is less like itself than like class 1
    with pytest.raises(ModelError, match="impression_scale"):
        soft_labels(similarity, 0, 4, 1e6, np.random.default_rng(0))


def test_the_model_believes_in_its_impressions_and_is_not_changed(bundles):
    model = ModelRuntime.open(bundles["cnn2"])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, *model.manifest.input_shape)).astype(np.float32)
    slots = np.arange(96) % 3
    x[np.arange(96), 5 * slots, 0] += 6
    mask = np.zeros(model.manifest.capacity, np.float32)
    mask[:3] = 1
    for _ in range(15):
        train_epoch(model, x, from_slots(slots, model.manifest.capacity), mask, Optimiser(0.02), rng)
    before = model.get_weights()
    made = synthesise(model, mask, [0, 2], SETTINGS, rng)
    assert made.shape == (2, 8, *model.manifest.input_shape)
    assert np.isfinite(made).all()
    for slot, features in zip((0, 2), made, strict=True):
        assert (model.predict(model.normalise(features), mask).argmax(axis=1) == slot).all()
    assert all(np.array_equal(before[name], array) for name, array in model.get_weights().items())
