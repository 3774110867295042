"""The coordinate median and the trimmed mean: by hand, against NumPy and SciPy, and whom they do not listen to."""

import numpy as np
import pytest

from aggregator_server.aggregation.median import coordinate_median
from aggregator_server.aggregation.trimmed_mean import trimmed_mean
from aggregator_server.errors import AggregationError
from tests.support.update_sets import updates

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
