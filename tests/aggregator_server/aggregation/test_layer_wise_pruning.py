"""Layer-wise pruning: equations 9 to 13 by hand, ties, and devices without clips."""

import numpy as np

from aggregator_server.aggregation.layer_wise_pruning import layer_wise_pruning
from aggregator_server.aggregation.weighted_mean import weighted_mean
from tests.support.update_sets import updates

# conv: mean (0, 0, 0), deviations 0, 5, 0, 0, 5.   head: mean (4, 0, 0), deviations 4, 3, 2, 1, 10.
FIVE = updates([[0, 0, 0, 0, 0, 0], [3, 0, 4, 1, 0, 0], [0, 0, 0, 2, 0, 0], [0, 0, 0, 3, 0, 0], [-3, 0, -4, 14, 0, 0]])
SIZES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def test_every_layer_drops_its_own_devices_and_weighs_the_others_by_size():
    pruned = layer_wise_pruning(FIVE, SIZES, v_l=0.2, v_h=0.2)
    assert pruned.lowest == {"conv": ["a"], "head": ["d"]}  # of a, c, d, which are all at the mean, the first
    assert pruned.highest == {"conv": ["e"], "head": ["e"]}  # of b and e, equally far, the last
    np.testing.assert_allclose(pruned.weights[:3], np.array([3, 0, 4]) * 2 / 9, rtol=1e-6)
    np.testing.assert_allclose(pruned.weights[3], (0 * 1 + 1 * 2 + 2 * 3) / 6, rtol=1e-6)


def test_shares_are_rounded_down_so_that_few_devices_drop_nobody():
    pruned = layer_wise_pruning(FIVE, SIZES, v_l=0.19, v_h=0.19)
    assert pruned.lowest == pruned.highest == {"conv": [], "head": []}
    assert pruned.weights.tobytes() == weighted_mean(FIVE, SIZES).tobytes()


def test_devices_that_are_left_without_clips_count_alike():
    sizes = np.array([1.0, 0.0, 0.0, 0.0, 5.0])
    pruned = layer_wise_pruning(FIVE, sizes, v_l=0.2, v_h=0.2)
    np.testing.assert_allclose(pruned.weights[:3], [1, 0, 4 / 3], rtol=1e-6)
