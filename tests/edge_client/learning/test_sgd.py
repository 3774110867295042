"""Targets and accuracy, by hand."""

import numpy as np
import pytest

from edge_client.learning.sgd import accuracy, at_temperature, from_consensus, from_slots


def test_consensus_targets_are_normalised_over_the_device_s_classes_and_unscored_rows_do_not_pull():
    scores = np.array([[3.0, 1.0], [0.0, 0.0]], np.float32)
    assert from_consensus(scores, [2, 0], 4).tolist() == [[0.25, 0, 0.75, 0], [0, 0, 0, 0]]


def test_accuracy_counts_only_samples_of_the_columns_classes():
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]], np.float32)
    assert accuracy(scores, np.array([5, 7, 1]), [5, 7]) == 0.5  # the third sample is of another class
    assert np.isnan(accuracy(scores, np.array([1, 1, 1]), [5, 7]))


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
