"""What a plan can say of combining weights: every rule, clipping in front, a server optimiser behind, bad plans."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator_server.aggregation import aggregate_weights
from aggregator_server.aggregation.rule import rules, weight_rules
from aggregator_server.errors import AggregationError
from fleet_protocol.messages import Choice
from tests.support.checkout import ROOT
from tests.support.update_sets import LAYOUT, fleets, updates, uploaded

START = LAYOUT.split(np.zeros(6, np.float32))
ROBUST = {"lpa": {"v_h": 0.2}, "median": {}, "trimmed_mean": {"trim": 0.2}, "krum": {}, "multi_krum": {}}


def combine(name, fleet, sizes, state=None, **settings):
    uploads = updates(fleet.matrix)  # a copy: clipping changes it
    weights, after, details = aggregate_weights(Choice(name, settings), uploads, sizes, START, state or {})
    return LAYOUT.flatten(weights), after, details


def test_the_table_of_methods_names_every_rule_and_setting():
    text = (ROOT / "docs" / "methods.md").read_text()
    for name in rules():
        assert all(f"`{word}`" in text for word in (name, *rules()[name].all_settings)), name


@settings(derandomize=True, deadline=None)
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


@settings(derandomize=True, deadline=None)
@given(fleets(most=1), st.sampled_from(["weighted_mean", "lpa", "median", "trimmed_mean"]))
def test_one_device_alone_is_the_fleet(case, name):
    fleet, sizes = case
    np.testing.assert_array_equal(combine(name, fleet, sizes)[0], fleet.matrix[0])


@settings(derandomize=True, deadline=None)
@given(fleets(), st.integers(3, 8), st.sampled_from(sorted(weight_rules())))
def test_devices_that_agree_are_what_comes_out(case, count, name):
    row = case[0].matrix[0]
    result, *_ = combine(name, updates(np.tile(row, (count, 1))), np.arange(1.0, count + 1))
    np.testing.assert_allclose(result, row, rtol=1e-6)


@settings(derandomize=True, deadline=None)
@given(fleets(least=5, most=9, largest=1), st.sampled_from(sorted(ROBUST)), st.sampled_from([1e3, 1e12, 3e38]))
def test_one_outlier_far_away_moves_no_robust_rule(case, name, far):
    honest, sizes = case
    fleet = updates(np.vstack([np.full(6, far), honest.matrix]))
    result, *_ = combine(name, fleet, np.append(1e6, sizes), **ROBUST[name])
    assert (result >= honest.matrix.min(axis=0) - 1e-5).all()
    assert (result <= honest.matrix.max(axis=0) + 1e-5).all()


def test_clipping_keeps_an_outlier_from_moving_the_mean_further_than_its_share():
    fleet = updates([[0] * 6, [0] * 6, [0] * 6, [1e9] * 6])
    result, _, details = combine("weighted_mean", fleet, np.ones(4), clip_norm=2.0)
    assert np.linalg.norm(result) == pytest.approx(2.0 / 4, rel=1e-5)
    assert list(details["clipped"]) == ["d"]


def test_the_plain_mean_forgets_the_sizes():
    fleet = updates([[0] * 6, [4] * 6])
    np.testing.assert_array_equal(combine("weighted_mean", fleet, np.array([1.0, 3.0]))[0], [3] * 6)
    np.testing.assert_array_equal(combine("weighted_mean", fleet, np.array([1.0, 3.0]), by_size=False)[0], [2] * 6)


def test_a_server_optimiser_takes_what_the_rule_made_for_a_gradient_and_carries_on():
    fleet = updates([[1] * 6, [2] * 6, [99] * 6])
    adam = {"server_optimiser": "adam", "server_learning_rate": 0.1, "server_tau": 1.0}
    first, state, _ = combine("median", fleet, np.ones(3), **adam)
    m, v = 0.1 * 2, 0.99 * 1 + 0.01 * 4
    np.testing.assert_allclose(first, np.full(6, 0.1 * m / (np.sqrt(v) + 1)), rtol=1e-6)
    second, _, _ = combine("median", fleet, np.ones(3), state, **adam)
    np.testing.assert_allclose(second, np.full(6, 0.1 * 0.38 / (np.sqrt(0.99 * v + 0.04) + 1)), rtol=1e-6)
    assert combine("median", fleet, np.ones(3), state)[1] == {}  # a round without it forgets


def test_the_details_name_whom_the_rule_dropped_or_chose():
    fleet = updates([[value] * 6 for value in (0, 1, 3, 10, 100)])
    dropped = combine("lpa", fleet, np.ones(5), v_l=0.0, v_h=0.2)[2]
    assert dropped == {"dropped_lowest": {"conv": [], "head": []}, "dropped_highest": {"conv": ["e"], "head": ["e"]}}
    assert combine("krum", fleet, np.ones(5))[2] == {"chosen": ["b"]}


def test_a_rule_for_scores_is_refused_for_weights():
    with pytest.raises(AggregationError, match="'label_wise' combines no weights; rules that do: krum, lpa"):
        combine("label_wise", updates(np.zeros((2, 6))), np.ones(2))


def test_previous_weights_of_another_model_are_refused():
    with pytest.raises(AggregationError, match=r"'conv\.kernel'.*missing"):
        aggregate_weights(Choice("median"), updates(np.zeros((2, 6))), np.ones(2), {}, {})
