"""The coordinate median and the trimmed mean: by hand, against NumPy and SciPy, and whom they do not listen to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import trim_mean

from aggregator_server.aggregation.median import coordinate_median
from aggregator_server.aggregation.trimmed_mean import trimmed_mean
from aggregator_server.aggregation.updates import Layout
from aggregator_server.errors import AggregationError
from fleet_protocol.bundle import Layer
from tests.support.update_sets import fleets, updates

ODD = updates([[1, 9, 5, 0, 0, 0], [2, 8, 5, 0, 0, 0], [90, 1, 5, 0, 0, 0]])
EVEN = updates([[1, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0], [50, 0, 0, 0, 0, 0]])


def test_the_median_of_every_weight_by_itself():
    np.testing.assert_array_equal(coordinate_median(ODD), [2, 8, 5, 0, 0, 0])
    np.testing.assert_array_equal(coordinate_median(EVEN), [3, 0, 0, 0, 0, 0])


def test_the_trimmed_mean_cuts_at_both_ends_of_every_weight():
    np.testing.assert_array_equal(trimmed_mean(EVEN, 0.25), [3, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(trimmed_mean(EVEN, 0.24), [57 / 4, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(trimmed_mean(ODD, 0.34), [2, 8, 5, 0, 0, 0])


@pytest.mark.parametrize("trim", [-0.1, 0.5, 1.0])
def test_a_trim_that_leaves_nothing_is_refused(trim):
    with pytest.raises(AggregationError, match=r"below 0\.5"):
        trimmed_mean(EVEN, trim)


@settings(derandomize=True, deadline=None)
@given(fleets())
def test_the_median_is_numpys(case):
    fleet, _ = case
    np.testing.assert_allclose(coordinate_median(fleet), np.median(fleet.matrix, axis=0), rtol=1e-6, atol=1e-5)


@settings(derandomize=True, deadline=None)
@given(fleets(), st.sampled_from([0.0, 0.15, 0.26, 0.4]))
def test_the_trimmed_mean_is_scipys(case, trim):
    fleet, _ = case
    expected = trim_mean(fleet.matrix.astype(np.float64), trim, axis=0)
    np.testing.assert_allclose(trimmed_mean(fleet, trim), expected, rtol=1e-6, atol=1e-5)


@settings(derandomize=True, deadline=None)
@given(fleets(least=5, largest=1), st.sampled_from([1e2, 1e12, 3e38]), st.booleans())
def test_an_outlier_leaves_both_among_the_honest(case, far, below):
    honest, _ = case
    outlier = np.full(6, -far if below else far)
    fleet = updates(np.vstack([honest.matrix, outlier]))
    for result in (coordinate_median(fleet), trimmed_mean(fleet, 0.2)):
        assert (result >= honest.matrix.min(axis=0) - 1e-6).all()
        assert (result <= honest.matrix.max(axis=0) + 1e-6).all()


def test_all_columns_of_a_wide_model_are_combined():
    layout = Layout((Layer("wide", ("w",)),), {"w": (1_000,)})
    rows = np.random.default_rng(2).normal(size=(9, 1_000)).astype(np.float32)
    np.testing.assert_array_equal(coordinate_median(updates(rows, layout)), np.median(rows, axis=0))
