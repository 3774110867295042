"""The weighted mean: by hand, to the last digits, and with sizes that count for nothing."""

import numpy as np
import pytest

from aggregator_server.aggregation.weighted_mean import weighted_mean
from aggregator_server.errors import AggregationError
from tests.support.update_sets import updates


def test_a_device_counts_as_much_as_it_has_clips():
    fleet = updates([[0, 4, 8, 0, 0, 0], [4, 0, 8, 0, 0, 0]])
    np.testing.assert_array_equal(weighted_mean(fleet, np.array([1.0, 3.0])), [3, 1, 8, 0, 0, 0])
    np.testing.assert_array_equal(weighted_mean(fleet, np.array([1.0, 3.0]), slice(0, 2)), [3, 1])


def test_a_device_without_clips_does_not_count_unless_nobody_has_any():
    fleet = updates([[1] * 6, [3] * 6, [100] * 6])
    np.testing.assert_array_equal(weighted_mean(fleet, np.array([1.0, 1.0, 0.0])), [2] * 6)
    np.testing.assert_allclose(weighted_mean(fleet, np.zeros(3)), [104 / 3] * 6, rtol=1e-7)


def test_the_largest_weights_that_float32_holds_do_not_overflow():
    largest = np.finfo(np.float32).max
    fleet = updates([[largest, -largest, largest, 0, 0, 0]] * 40)
    result = weighted_mean(fleet, np.full(40, 1e9))
    np.testing.assert_allclose(result, fleet.matrix[0], rtol=1e-6)


@pytest.mark.parametrize("size", [-1.0, np.nan, np.inf])
def test_a_size_that_is_none_is_refused_with_the_devices_name(size):
    with pytest.raises(AggregationError, match="device b"):
        weighted_mean(updates(np.zeros((2, 6))), np.array([1.0, size]))
