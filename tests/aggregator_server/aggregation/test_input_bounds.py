"""The bounds in front of every rule: what they let through, and what a device can gain by a false number of clips."""

import numpy as np
import pytest

from aggregator_server.aggregation.input_bounds import FeatureRange, capped_sizes, check_probabilities
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.limits import PROTOTYPE_LEAST_WIDTH, PROTOTYPE_RANGES, SELECTION_CAP
from aggregator_server.strategies.selection import data_sizes
from fleet_protocol.methods.group_balanced import group_by_size


def test_sizes_are_capped_by_the_lower_median():
    assert capped_sizes(np.array([10.0, 30.0, 2.0**31]), 3).tolist() == [10, 30, 90]
    assert capped_sizes(np.array([10.0, 2.0**31]), 3).tolist() == [10, 30]  # of two, the smaller one counts
    assert capped_sizes(np.array([0.0, 0.0, 2.0**31, 50, 60]), 3).tolist() == [0, 0, 180, 50, 60]
    assert capped_sizes(np.zeros(3), 3).tolist() == [0, 0, 0]
    assert capped_sizes(np.array([1.0, 1e9]), 0).tolist() == [1, 1e9]


def test_a_device_cannot_have_itself_drawn_in_every_round():
    sizes = data_sizes(np.array([40] * 9 + [2**31 - 1], np.float64))
    assert sizes[-1] == SELECTION_CAP * 40
    assert sizes[-1] / sizes.sum() < 0.53
    groups = group_by_size({str(number): float(size) for number, size in enumerate(sizes)}, 3)
    assert groups == (tuple(map(str, range(9))), ("9",))


def test_ranges_are_those_of_each_number_of_a_frame():
    features = np.zeros((5, 2, 3), np.float32)
    features[..., 1] = np.linspace(-1, 1, 10).reshape(5, 2)
    features[..., 2] = 100.0
    found = FeatureRange.of(features)
    assert found.low.tolist() == [0, -1, 100]
    inside = np.array([[[0.0, 6.9, 100.2]]], np.float32)
    found.check("impressions", inside, 3.0)
    for column, value in ((1, 7.1), (1, -7.1), (2, 101.0), (0, 0.3)):
        outside = inside.copy()
        outside[0, 0, column] = value
        with pytest.raises(MalformedUpdateError, match=rf"'impressions' holds {value:g} at \(0, 0, {column}\)"):
            found.check("impressions", outside, 3.0)


def test_a_number_that_is_the_same_in_all_public_recordings_need_not_be_so_in_an_owners():
    """Embeddings of the bundle `words`, of which most numbers are 0 in two public sounds."""
    rng = np.random.default_rng(0)
    features = np.maximum(0, rng.normal(size=(16, 1, 64))).astype(np.float32)
    features[..., 8:] = 0.0
    value = np.roll(features[:1], 8, axis=-1)
    found = FeatureRange.of(features)
    found.check("prototypes", value, PROTOTYPE_RANGES, PROTOTYPE_LEAST_WIDTH)
    with pytest.raises(MalformedUpdateError, match="public recordings' features allow"):
        found.check("prototypes", 100 * value, PROTOTYPE_RANGES, PROTOTYPE_LEAST_WIDTH)


def test_what_a_network_answers_passes_and_what_it_cannot_answer_does_not():
    rng = np.random.default_rng(1)
    answers = np.exp(rng.normal(size=(50, 6)) * 9).astype(np.float32)
    answers /= answers.sum(axis=1, keepdims=True)
    check_probabilities("scores", answers)
    check_probabilities("scores", answers.astype(np.float16).astype(np.float32))
    check_probabilities("scores", answers[:, :2])  # some of its classes
    check_probabilities("scores", np.zeros((50, 0), np.float32))
    for wrong in (answers * 1.1, answers - 0.1, -answers):
        with pytest.raises(MalformedUpdateError, match="probabilities"):
            check_probabilities("scores", np.asarray(wrong, np.float32))
