"""What a prototype tells: the mean of a class, clipped and noisy where the plan says so."""

import numpy as np
import pytest

from edge_client.learning.new_sounds.prototypes import protected, prototypes
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle


@pytest.fixture(scope="module")
def statistics():
    return read_bundle(find_bundle("base")).manifest.embedding_statistics


def distances(means, statistics):
    return np.linalg.norm((means[:, 0] - statistics.means.mean(axis=0)) @ statistics.whitening, axis=1)


def test_far_prototypes_are_drawn_in_to_the_bound_and_near_ones_stay(statistics):
    means = statistics.means[:5, None]
    bound = float(np.median(distances(means, statistics)))
    found = protected(means, statistics, bound, 0.0, np.random.default_rng(0))
    near = distances(means, statistics) <= bound
    assert 0 < near.sum() < 5
    np.testing.assert_allclose(found[near], means[near], atol=1e-4)
    np.testing.assert_allclose(distances(found[~near], statistics), bound, rtol=1e-3)
    assert found.dtype == np.float32


def test_noise_has_the_size_that_the_plan_says_in_every_whitened_number(statistics):
    means = np.repeat(statistics.means[:1, None], 2_000, axis=0)
    found = protected(means, statistics, 1e6, 0.7, np.random.default_rng(0))
    z = (found - means)[:, 0] @ statistics.whitening
    np.testing.assert_allclose(z.std(axis=0), 0.7, rtol=0.1)
    assert protected(means, statistics, 0.0, 0.0, np.random.default_rng(0)) is means


def test_a_class_is_the_mean_of_its_clips():
    features = np.arange(12, dtype=np.float32).reshape(4, 1, 3)
    found = prototypes(features, np.array([7, 2, 7, 2]), [2, 7])
    np.testing.assert_array_equal(found[:, 0], [[6, 7, 8], [3, 4, 5]])
