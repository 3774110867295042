"""What a plan can say of combining weights: every rule, bad plans; by hand the means, the medians, clipping in front
and the server optimisers behind (algorithm 2 of Reddi et al.).
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator_server.aggregation import aggregate_weights
from aggregator_server.aggregation.input_bounds import clip_norms
from aggregator_server.aggregation.rule import rules, weight_rules
from aggregator_server.aggregation.server_optimisers import server_step
from aggregator_server.aggregation.weighted_mean import weighted_mean
from aggregator_server.errors import AggregationError
from fleet_protocol.messages.rest import Choice
from tests.support.checkout import ROOT
from tests.support.update_sets import LAYOUT, fleets, matrix, updates, uploaded

START = LAYOUT.split(np.zeros(6, np.float32))
ROBUST = {"lpa": {"v_h": 0.2}, "median": {}, "trimmed_mean": {"trim": 0.2}, "krum": {}, "multi_krum": {}}


def combine(name, fleet, sizes, state=None, **settings):
    uploads = updates(matrix(fleet))  # a copy: clipping changes it
    weights, after, details = aggregate_weights(Choice(name, settings), uploads, sizes, START, state or {})
    return LAYOUT.flatten(weights), after, details


def test_the_table_of_methods_names_every_rule_and_setting():
    text = (ROOT / "docs" / "methods.md").read_text()
    for name in rules():
        assert all(f"`{word}`" in text for word in (name, *rules()[name].all_settings)), name


@given(
    fleets(least=5),
    st.sampled_from(sorted(weight_rules())),
    st.sampled_from(["none", "yogi"]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_devices_does_not_matter_to_the_last_bit(case, name, optimiser, random):
    fleet, sizes = case
    order = random.sample(fleet.device_ids, len(fleet))
    around = {"clip_norm": 5.0, "server_optimiser": optimiser}
    one, one_state, one_details = combine(name, fleet, sizes, **around)
    other, other_state, other_details = combine(name, uploaded(fleet, order), sizes, **around)
    assert one.tobytes() == other.tobytes()
    assert {k: v.tobytes() for k, v in one_state.items()} == {k: v.tobytes() for k, v in other_state.items()}
    assert one_details == other_details
    assert json.loads(json.dumps(one_details)) == one_details


@given(fleets(least=5, most=9, largest=1), st.sampled_from(sorted(ROBUST)), st.sampled_from([1e3, 1e12, 3e38]))
def test_one_outlier_far_away_moves_no_robust_rule(case, name, far):
    honest, sizes = case
    fleet = updates(np.vstack([np.full(6, far), matrix(honest)]))
    result, *_ = combine(name, fleet, np.append(1e6, sizes), **ROBUST[name])
    assert (result >= matrix(honest).min(axis=0) - 1e-5).all()
    assert (result <= matrix(honest).max(axis=0) + 1e-5).all()


def test_the_plain_mean_forgets_the_sizes():
    fleet = updates([[0] * 6, [4] * 6])
    np.testing.assert_array_equal(combine("weighted_mean", fleet, np.array([1.0, 3.0]))[0], [3] * 6)
    np.testing.assert_array_equal(combine("weighted_mean", fleet, np.array([1.0, 3.0]), by_size=False)[0], [2] * 6)


def test_a_device_without_clips_does_not_count_unless_nobody_has_any():
    fleet = updates([[1] * 6, [3] * 6, [100] * 6])
    np.testing.assert_array_equal(weighted_mean(fleet, np.array([1.0, 1.0, 0.0])), [2] * 6)
    np.testing.assert_allclose(weighted_mean(fleet, np.zeros(3)), [104 / 3] * 6, rtol=1e-7)


@pytest.mark.parametrize("size", [-1.0, np.nan, np.inf])
def test_a_size_that_is_none_is_refused_with_the_devices_name(size):
    with pytest.raises(AggregationError, match="device b"):
        weighted_mean(updates(np.zeros((2, 6))), np.array([1.0, size]))


BEFORE = np.array([1, 1, 1, 1, 1, 1], np.float32)


def test_a_long_update_is_shortened_along_its_direction_and_a_short_one_is_not_touched():
    fleet = updates([[4, 5, 1, 1, 1, 1], [1, 1, 2, 1, 1, 1]])
    assert clip_norms(fleet, BEFORE, 2.5) == {"a": pytest.approx(5.0)}
    np.testing.assert_allclose(matrix(fleet)[0], [2.5, 3, 1, 1, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(matrix(fleet)[1], [1, 1, 2, 1, 1, 1])


PREVIOUS, COMBINED = np.array([1.0], np.float32), np.array([3.0], np.float32)  # the update is 2
SETTINGS = {"learning_rate": 0.5, "beta_1": 0.5, "beta_2": 0.75, "tau": 1.0}

# m = 0.5 * 0 + 0.5 * 2 = 1; v starts at tau^2 = 1 and d^2 = 4; the step is 0.5 m / (sqrt(v) + 1).
FIRST = {"adagrad": 1 + 4, "yogi": 1 + 0.25 * 4, "adam": 0.75 * 1 + 0.25 * 4}


@pytest.mark.parametrize(("name", "v"), FIRST.items())
def test_the_first_step_starts_from_tau_squared(name, v):
    moved, state = server_step(name, PREVIOUS, COMBINED, {}, **SETTINGS)
    np.testing.assert_allclose(moved, [1 + 0.5 * 1 / (np.sqrt(v) + 1)], rtol=1e-6)
    np.testing.assert_allclose(state[f"{name}.m"], [1.0])
    np.testing.assert_allclose(state[f"{name}.v"], [v])
    assert {array.dtype for array in (moved, *state.values())} == {np.dtype(np.float32)}


def test_a_state_of_another_optimiser_or_another_model_is_not_continued():
    first, _ = server_step("adam", PREVIOUS, COMBINED, {}, **SETTINGS)
    _, yogi = server_step("yogi", PREVIOUS, COMBINED, {}, **SETTINGS)
    wide = {"adam.m": np.ones(2, np.float32), "adam.v": np.ones(2, np.float32)}
    for state in (yogi, wide, {"adam.m": np.ones(1, np.float32)}):
        again, _ = server_step("adam", PREVIOUS, COMBINED, state, **SETTINGS)
        assert again.tobytes() == first.tobytes()
