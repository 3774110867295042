"""Norm clipping: by hand, the bound for any uploads, and what is short stays as it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator_server.aggregation.norm_clipping import clip_norms
from aggregator_server.errors import AggregationError
from tests.support.update_sets import fleets, updates

START = np.array([1, 1, 1, 1, 1, 1], np.float32)


def test_a_long_update_is_shortened_along_its_direction_and_a_short_one_is_not_touched():
    fleet = updates([[4, 5, 1, 1, 1, 1], [1, 1, 2, 1, 1, 1]])
    assert clip_norms(fleet, START, 2.5) == {"a": pytest.approx(5.0)}
    np.testing.assert_allclose(fleet.matrix[0], [2.5, 3, 1, 1, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(fleet.matrix[1], [1, 1, 2, 1, 1, 1])


def test_where_nobody_is_too_long_nothing_changes():
    fleet = updates([START, START])
    assert clip_norms(fleet, START, 0.1) == {}
    np.testing.assert_array_equal(fleet.matrix, [START, START])


@pytest.mark.parametrize("limit", [0.0, -1.0, np.nan])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(AggregationError, match="above 0"):
        clip_norms(updates([START]), START, limit)


@settings(derandomize=True, deadline=None)
@given(fleets(), st.floats(1e-3, 1e3), st.sampled_from([1.0, 1e30]))
def test_no_update_is_longer_than_the_limit(case, limit, factor):
    fleet, _ = case
    fleet = updates(fleet.matrix * np.float32(factor))
    norms = clip_norms(fleet, START, limit)
    lengths = np.linalg.norm(fleet.matrix.astype(np.float64) - START, axis=1)
    assert (lengths <= limit * (1 + 1e-6) + 1e-6).all()  # the last digit of a float32 weight
    assert all(norm > limit for norm in norms.values())
