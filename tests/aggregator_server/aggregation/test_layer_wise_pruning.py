"""Layer-wise pruning: equations 9 to 13 by hand, ties, settings that leave nobody, and outliers however far."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator_server.aggregation.layer_wise_pruning import layer_deviations, layer_wise_pruning
from aggregator_server.aggregation.weighted_mean import weighted_mean
from aggregator_server.errors import AggregationError
from tests.support.update_sets import fleets, updates

# conv: mean (0, 0, 0), deviations 0, 5, 0, 0, 5.   head: mean (4, 0, 0), deviations 4, 3, 2, 1, 10.
FIVE = updates([[0, 0, 0, 0, 0, 0], [3, 0, 4, 1, 0, 0], [0, 0, 0, 2, 0, 0], [0, 0, 0, 3, 0, 0], [-3, 0, -4, 14, 0, 0]])
SIZES = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def test_every_layer_drops_its_own_devices_and_weighs_the_others_by_size():
    pruned = layer_wise_pruning(FIVE, SIZES, v_l=0.2, v_h=0.2)
    assert pruned.lowest == {"conv": ["a"], "head": ["d"]}  # of a, c, d, which are all at the mean, the first
    assert pruned.highest == {"conv": ["e"], "head": ["e"]}  # of b and e, equally far, the last
    np.testing.assert_allclose(pruned.weights[:3], np.array([3, 0, 4]) * 2 / 9, rtol=1e-6)
    np.testing.assert_allclose(pruned.weights[3], (0 * 1 + 1 * 2 + 2 * 3) / 6, rtol=1e-6)


def test_deviations_are_of_a_layers_kernel_and_bias_together():
    deviations = layer_deviations(FIVE)
    np.testing.assert_allclose(deviations["conv"], [0, 5, 0, 0, 5], atol=1e-6)
    np.testing.assert_allclose(deviations["head"], [4, 3, 2, 1, 10], rtol=1e-6)


def test_shares_are_rounded_down_so_that_few_devices_drop_nobody():
    pruned = layer_wise_pruning(FIVE, SIZES, v_l=0.19, v_h=0.19)
    assert pruned.lowest == pruned.highest == {"conv": [], "head": []}
    assert pruned.weights.tobytes() == weighted_mean(FIVE, SIZES).tobytes()


@pytest.mark.parametrize(
    ("v_l", "v_h", "words"),
    [
        (0.5, 0.5, ["v_l = 0.5 drops 5", "v_h = 0.5 drops 5", "10 devices", "below 1"]),
        (1.0, 0.0, ["v_l", "below 1", "1.0"]),
        (0.0, -0.1, ["v_h", "-0.1"]),
    ],
)
def test_settings_that_leave_nobody_are_refused_with_the_limit(v_l, v_h, words):
    with pytest.raises(AggregationError) as refused:
        layer_wise_pruning(updates(np.zeros((10, 6))), np.ones(10), v_l, v_h)
    assert all(word in str(refused.value) for word in words)


def test_devices_that_are_left_without_clips_count_alike():
    sizes = np.array([1.0, 0.0, 0.0, 0.0, 5.0])
    pruned = layer_wise_pruning(FIVE, sizes, v_l=0.2, v_h=0.2)
    np.testing.assert_allclose(pruned.weights[:3], [1, 0, 4 / 3], rtol=1e-6)


@settings(derandomize=True, deadline=None)
@given(fleets(), st.floats(0, 0.49), st.floats(0, 0.49))
def test_as_many_are_dropped_as_the_paper_says_and_nobody_twice(case, v_l, v_h):
    fleet, sizes = case
    pruned = layer_wise_pruning(fleet, sizes, v_l, v_h)
    for layer in ("conv", "head"):
        assert len(pruned.lowest[layer]) == int(v_l * len(fleet) + 1e-9)
        assert len(pruned.highest[layer]) == int(v_h * len(fleet) + 1e-9)
        assert not set(pruned.lowest[layer]) & set(pruned.highest[layer])


@settings(derandomize=True, deadline=None)
@given(fleets(least=4), st.floats(0.3, 0.49))
def test_whoever_is_dropped_lies_further_out_than_whoever_stays(case, v):
    fleet, sizes = case
    deviations = layer_deviations(fleet)
    pruned = layer_wise_pruning(fleet, sizes, v, v)
    for layer, values in deviations.items():
        named = dict(zip(fleet.device_ids, values, strict=True))
        kept = [named[d] for d in named if d not in pruned.lowest[layer] + pruned.highest[layer]]
        assert min(named[d] for d in pruned.highest[layer]) >= max(kept) * (1 - 1e-5) - 1e-6
        assert max(named[d] for d in pruned.lowest[layer]) <= min(kept) * (1 + 1e-5) + 1e-6
