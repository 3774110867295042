"""The prototype of a class: every device has a vote, and a few that lie do not move it far."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator_server.aggregation.geometric_median import geometric_shares
from aggregator_server.aggregation.prototype_mean import RULE, combine
from fleet_protocol.setting import complete

SAME = np.eye(3)


def values(**given):
    return complete("the rule", RULE.settings, given)


def test_a_device_with_many_clips_counts_as_one_with_the_cap():
    points = np.array([[0.0, 0, 0], [3.0, 0, 0]])
    mean = combine(points, np.array([1.0, 100.0]), SAME, values(centre="mean", vote_cap=2))
    np.testing.assert_allclose(mean, [2.0, 0, 0])
    mean = combine(points, np.array([1.0, 100.0]), SAME, values(centre="mean", vote_cap=1))
    np.testing.assert_allclose(mean, [1.5, 0, 0])


@given(st.integers(0, 1_000), st.integers(3, 12), st.floats(1.0, 1e6))
@settings(max_examples=60, deadline=None)
def test_less_than_half_of_the_devices_cannot_move_the_geometric_median_far(seed, honest, distance):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(honest, 3))
    lies = np.full(((honest - 1) // 2, 3), distance * 100)
    counts = np.full(honest + len(lies), 5.0)
    found = combine(np.concatenate([points, lies]), counts, SAME, values())
    share = len(lies) / (honest + len(lies))
    furthest = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    bound = furthest * 2 * (1 - share) / (1 - 2 * share)  # Minsker 2015, lemma 2.1
    assert np.linalg.norm(found - points.mean(axis=0)) <= bound + 1e-6
    if len(lies):
        plain = combine(np.concatenate([points, lies]), counts, SAME, values(centre="mean"))
        assert np.linalg.norm(plain - points.mean(axis=0)) > share * distance * 100


def test_the_geometric_median_minimises_the_sum_of_the_weighted_distances():
    rng = np.random.default_rng(3)
    points, weights = rng.normal(size=(9, 4)), rng.integers(1, 6, 9).astype(float)
    middle = geometric_shares(points, weights) @ points

    def cost(point):
        return weights @ np.linalg.norm(points - point, axis=1)

    assert all(cost(middle) < cost(middle + 0.01 * rng.normal(size=4)) for _ in range(50))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_devices_that_agree_are_believed_as_they_are(count):
    points = np.tile(np.array([[1.0, -2.0, 3.0]]), (count, 1))
    np.testing.assert_allclose(combine(points, np.full(count, 7.0), SAME, values()), [1.0, -2.0, 3.0])
