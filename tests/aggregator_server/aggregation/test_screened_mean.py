"""The screened mean: its equation by hand, what it drops and what it keeps, and few devices."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator_server.aggregation import aggregate_weights
from aggregator_server.aggregation.screened_mean import ALL_LAYERS, screen
from fleet_protocol.messages.rest import Choice
from tests.support.update_sets import LAYOUT, WIDTH, fleets, matrix, updates

START = np.zeros(WIDTH, np.float32)


def combined(fleet, sizes, start=START, **values):
    choice = Choice("screened_mean", {"clips_cap": 0.0} | values)
    weights, _, details = aggregate_weights(choice, fleet, np.asarray(sizes, float), LAYOUT.split(start), {})
    return LAYOUT.flatten(weights), details


# Around (1, 1, 1, 1, 1, 1): a and b a little off, c right on it, d off in the head alone, e off in all.
FIVE = [[1.1, 1, 1, 1, 1.1, 1], [1, 1.1, 1, 1.1, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1.1, 1, 1, 1.9], [3, 3, 3, 3, 3, 3]]


def test_distances_are_counted_in_medians_layer_by_layer():
    found = screen(updates(FIVE), np.ones(5), START, 2.0)
    np.testing.assert_allclose(found.median, np.ones(WIDTH), rtol=1e-6)
    np.testing.assert_allclose(found.distances["conv"], [1, 1, 0, 1, 2 * np.sqrt(3) / 0.1], rtol=1e-4)
    np.testing.assert_allclose(found.distances["head"], [1, 1, 0, 9, 2 * np.sqrt(3) / 0.1], rtol=1e-4)
    usual = np.sqrt(0.02)
    np.testing.assert_allclose(found.distances[ALL_LAYERS][3:], np.sqrt([0.82, 24]) / usual, rtol=1e-4)
    assert found.dropped.tolist() == [False, False, False, True, True]


def test_the_mean_is_of_those_who_are_left_by_their_clips_and_the_details_say_why_others_are_not():
    sizes = [10.0, 5.0, 10.0, 10.0, 10.0]
    weights, details = combined(updates(FIVE), sizes)
    np.testing.assert_allclose(weights, np.average(FIVE[:3], axis=0, weights=sizes[:3]), rtol=1e-6)
    assert set(details["screened"]) == {"d", "e"}
    assert details["screened"]["d"]["distances"]["head"] == pytest.approx(9, abs=0.01)
    assert "conv" not in details["screened"]["d"]["distances"]
    assert not details["screened"]["d"]["against"]
    assert json.loads(json.dumps(details)) == details
    equal, _ = combined(updates(FIVE), sizes, by_size=False)
    np.testing.assert_allclose(equal, np.mean(FIVE[:3], axis=0), rtol=1e-6)


def test_an_update_against_the_others_is_dropped_however_short():
    rows = np.ones((5, WIDTH)) * [[1.0], [0.9], [1.1], [1.0], [-0.1]]
    weights, details = combined(updates(rows), np.ones(5), threshold=1e9)
    assert details["screened"] == {"e": {"distances": {}, "against": True}}
    np.testing.assert_allclose(weights, np.ones(WIDTH), rtol=1e-6)


def test_more_clips_than_the_usual_device_s_do_not_weigh_more_unless_the_plan_says_so():
    rows, sizes = updates(FIVE), [10.0, 2.0**31 - 1, 5.0, 10.0, 10.0]
    weights, _ = combined(rows, sizes)
    np.testing.assert_allclose(weights, np.average(FIVE[:3], axis=0, weights=[10, 10, 5]), rtol=1e-6)
    weights, _ = combined(rows, sizes, weight_cap=2.0)
    np.testing.assert_allclose(weights, np.average(FIVE[:3], axis=0, weights=[10, 20, 5]), rtol=1e-6)
    weights, _ = combined(rows, [10.0, 300.0, 5.0, 10.0, 10.0], weight_cap=0.0)
    np.testing.assert_allclose(weights, np.average(FIVE[:3], axis=0, weights=[10, 300, 5]), rtol=1e-6)


def test_many_clips_explain_a_long_update_in_the_others_direction_and_nothing_else():
    rows = np.ones((5, WIDTH)) * [[0.9], [0.95], [1.05], [1.1], [2.05]]
    _, details = combined(updates(rows), [40.0, 40, 40, 40, 360])  # 10 medians away: 2 times 9, not its root
    assert details["screened"]["e"]["explained"]
    assert "explained" not in combined(updates(rows), np.full(5, 40.0))[1]["screened"]["e"]
    rows[4] = -0.1
    assert combined(updates(rows), [40.0, 40, 40, 40, 4000])[1]["screened"]["e"] == {"distances": {}, "against": True}


@pytest.mark.parametrize("rows", [[[9.0] * 6], [[1.0] * 6, [-5.0] * 6]])
def test_one_or_two_devices_are_never_dropped(rows):
    weights, details = combined(updates(rows), np.ones(len(rows)))
    assert details == {"screened": {}}
    np.testing.assert_allclose(weights, np.mean(rows, axis=0), rtol=1e-6)


def test_where_no_more_than_half_are_left_the_median_is_taken():
    # Each of three devices stands out in a layer of its own or on its side; one is left of four.
    rows = [[9, 9, 9, 1, 1, 1.1], [1, 1.1, 1, 9, 9, 9], [-1, -1, -1, -1, -1, -1], [1, 1, 1, 1, 1, 1]]
    weights, details = combined(updates(rows), np.ones(4))
    assert details["median"]
    assert len(details["screened"]) >= 2
    np.testing.assert_allclose(weights, np.median(np.array(rows, np.float32), axis=0), rtol=1e-6)


def test_a_layer_that_nobody_trained_tells_nothing():
    rows = np.ones((5, WIDTH), np.float32)
    rows[:, :3] += np.arange(5)[:, None] * 0.1
    found = screen(updates(rows), np.ones(5), START, 2.0)
    assert not found.distances["head"].any()
    assert not found.dropped.any()


@given(fleets(least=3, largest=1), st.integers(0, 2**31), st.floats(1e2, 1e30))
def test_less_than_half_far_away_move_the_mean_no_further_than_the_others_lie(case, seed, far):
    honest, sizes = case
    liars = (len(honest) - 1) // 2
    rng = np.random.default_rng(seed)
    lies = (far * rng.choice([-1.0, 1.0], size=(liars, WIDTH))).astype(np.float32)
    everybody = updates(np.concatenate([matrix(honest), lies]))
    weights, _ = combined(everybody, np.concatenate([sizes, np.full(liars, 1000.0)]))
    assert (weights >= matrix(honest).min(axis=0) - 2).all()
    assert (weights <= matrix(honest).max(axis=0) + 2).all()
