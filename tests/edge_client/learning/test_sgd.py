"""Targets and accuracy, by hand; training on a real runtime."""

import numpy as np
import pytest

from edge_client.learning.sgd import Optimiser, accuracy, at_temperature, from_consensus, from_slots, train_epoch
from edge_client.model.runtime import ModelRuntime


def test_consensus_targets_are_normalised_over_the_device_s_classes_and_unscored_rows_do_not_pull():
    scores = np.array([[3.0, 1.0], [0.0, 0.0]], np.float32)
    assert from_consensus(scores, [2, 0], 4).tolist() == [[0.25, 0, 0.75, 0], [0, 0, 0, 0]]


def test_accuracy_counts_only_samples_of_the_columns_classes():
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], np.float32)
    assert accuracy(scores, np.array([5, 7, 1]), [5, 7]) == 0.5  # the third sample is of another class
    assert np.isnan(accuracy(scores, np.array([1, 1, 1]), [5, 7]))


def separable(model, rng):
    """Two classes that differ in the first coefficient."""
    x = rng.standard_normal((64, *model.manifest.input_shape)).astype(np.float32)
    slots = np.arange(64) % 2
    x[:, :, 0] += np.where(slots == 0, -2, 2)[:, None]
    return x, from_slots(slots, model.manifest.capacity), slots


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_training_learns_and_is_repeatable(bundles, temperature):
    results = []
    for _ in range(2):
        model = ModelRuntime.open(bundles["cnn1"])
        rng = np.random.default_rng(0)
        x, targets, slots = separable(model, rng)
        mask = np.zeros(model.manifest.capacity, np.float32)
        mask[:2] = 1
        optimiser = Optimiser(0.01, temperature=temperature)
        losses = [train_epoch(model, x, targets, mask, optimiser, rng) for _ in range(8)]
        assert losses[-1] < losses[0] / 2
        assert (model.predict(x, mask)[:, :2].argmax(axis=1) == slots).mean() > 0.95
        results.append(model.get_weights())
    assert all(np.array_equal(results[0][name], results[1][name]) for name in results[0])


def test_a_label_at_temperature_one_is_nearly_sure_and_softer_at_a_higher_one():
    mask = np.array([1, 1, 1, 0, 0], np.float32)
    labels = from_slots(np.array([0, 2]), 5)
    sure, soft = at_temperature(labels, mask, 1.0), at_temperature(labels, mask, 4.0)
    np.testing.assert_allclose(sure, [[0.99, 0.005, 0.005, 0, 0], [0.005, 0.005, 0.99, 0, 0]], rtol=1e-5)
    np.testing.assert_allclose(soft.sum(axis=1), 1.0, rtol=1e-6)
    assert soft[0].argmax() == 0
    assert 0.5 < soft[0, 0] < 0.9
    logits = 4 * np.log(soft[0, :3])  # what a network says at T = 4 is what it says at T = 1
    powers = np.exp(logits - logits.max())
    assert powers[0] / powers.sum() == pytest.approx(0.99, abs=1e-4)
