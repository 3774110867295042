"""Label-wise averaging: the paper's equation on numbers worked out by hand, and what holds for any numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aggregator_server.aggregation.alpha_update import alpha_update
from aggregator_server.aggregation.label_wise_beta import DeviceScores, accuracy, label_wise
from aggregator_server.errors import AggregationError

LABELS = np.array([0, 0, 1, 1], np.int64)
REAL = np.zeros(4, np.bool_)
NOTHING = np.zeros((4, 3), np.float32)


def scores(name, columns, rows):
    return DeviceScores(name, np.array(columns, np.int64), np.array(rows, np.float32))


# a is right on rows 0, 1, 2 (accuracy 3/4); b on rows 2 and 3 of its class 1, where it owns nothing else (accuracy 1).
A = scores("a", [0, 1], [[2, 1], [4, 0], [0, 6], [5, 1]])
B = scores("b", [1, 2], [[1, 0], [2, 0], [3, 1], [9, 2]])


def test_the_alpha_update_by_hand():
    own = np.array([[0.5, 0.5], [1.0, 0.0]], np.float32)
    consensus = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
    # alpha = 6 clips / 2 public samples = 3
    assert alpha_update(own, consensus, 6).tolist() == [[2.5, 1.5], [3.0, 2.0]]


def test_a_label_of_one_owner_takes_its_scores_and_a_shared_one_the_weighted_mean():
    result = label_wise([A, B], LABELS, REAL, NOTHING)
    assert result.accuracies == {"a": 0.75, "b": 1.0}
    assert result.betas == {0: {"a": 1.0}, 1: {"a": 0.75, "b": 1.0}, 2: {"b": 1.0}}
    np.testing.assert_allclose(result.scores[:, 0], [2, 4, 0, 5])
    expected = [(0.75 * 1 + 1) / 1.75, (0 + 2) / 1.75, (0.75 * 6 + 3) / 1.75, (0.75 * 1 + 9) / 1.75]
    np.testing.assert_allclose(result.scores[:, 1], expected, rtol=1e-6)
    np.testing.assert_allclose(result.scores[:, 2], [0, 0, 1, 2])
    assert result.plain_mean == ()


def test_above_chance_a_device_that_guesses_or_lies_has_no_weight_beside_others():
    # a is right on 3 of 4 with two classes: 0.75 - 0.5. Liars are sure of the wrong one of two; b's is as by hand.
    liars = [scores(name, [0, 1], [[0, 9], [0, 9], [9, 0], [9, 0]]) for name in ("x", "y", "z")]
    result = label_wise([A, *liars], LABELS, REAL, NOTHING, above_chance=True)
    assert result.betas[0] == {"a": 0.25, "x": 0.0, "y": 0.0, "z": 0.0}
    np.testing.assert_array_equal(result.scores[:, :2], A.scores)
    alone = label_wise(liars[:1], LABELS, REAL, NOTHING, above_chance=True)
    assert alone.betas == {0: {"x": 1.0}, 1: {"x": 1.0}}  # a label's only owner counts, as in the paper
    one_class = scores("o", [0], [[1], [1], [1], [1]])  # with one class it is always right, which says nothing
    assert label_wise([A, one_class], LABELS, REAL, NOTHING, above_chance=True).betas[0] == {"a": 0.25, "o": 0.0}


def test_to_the_letter_the_weighted_sum_is_not_divided():
    result = label_wise([A, B], LABELS, REAL, NOTHING, normalise=False)
    np.testing.assert_allclose(result.scores[:, 1], [1.75, 2, 7.5, 9.75])
    np.testing.assert_allclose(result.scores[:, 0], [2, 4, 0, 5])


def test_a_label_that_nobody_uploaded_keeps_its_column():
    previous = np.arange(12, dtype=np.float32).reshape(4, 3)
    result = label_wise([A], LABELS, REAL, previous)
    np.testing.assert_array_equal(result.scores[:, 2], previous[:, 2])
    np.testing.assert_array_equal(result.scores[:, 0], A.scores[:, 0])
    assert set(result.betas) == {0, 1}
    np.testing.assert_array_equal(previous, np.arange(12).reshape(4, 3))  # the input is not touched


def test_weights_that_are_all_zero_give_the_plain_mean_and_say_so():
    # Both always answer with the wrong one of their two classes.
    wrong = [[0, 1], [0, 1], [1, 0], [1, 0]]
    result = label_wise([scores("a", [0, 1], wrong), scores("b", [0, 1], wrong)], LABELS, REAL, NOTHING)
    assert result.accuracies == {"a": 0.0, "b": 0.0}
    assert result.plain_mean == (0, 1)
    np.testing.assert_allclose(result.scores[:, :2], wrong)


def test_accuracy_counts_recordings_of_the_devices_own_classes_or_else_impressions():
    synthetic = np.array([False, False, True, True])
    assert accuracy(A, LABELS, synthetic) == 1.0  # rows 2 and 3 do not count
    assert accuracy(A, LABELS, REAL) == 0.75
    assert accuracy(scores("a", [1, 2], [[9, 0], [9, 0], [1, 0], [0, 1]]), LABELS, synthetic) == 0.5
    assert accuracy(scores("a", [2], [[1], [1], [1], [1]]), LABELS, REAL) == 0.0


def test_a_sum_that_float32_cannot_hold_is_an_error_that_names_the_way_out():
    huge = [[3e38, 0], [3e38, 0], [0, 3e38], [0, 3e38]]
    devices = [scores("a", [0, 1], huge), scores("b", [0, 1], huge)]
    with pytest.raises(AggregationError, match="normalise=true"):
        label_wise(devices, LABELS, REAL, NOTHING, normalise=False)
    assert np.isfinite(label_wise(devices, LABELS, REAL, NOTHING).scores).all()


@st.composite
def fleets(draw, least=1):
    samples, classes = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    labels = draw(arrays(np.int64, samples, elements=st.integers(0, classes - 1)))
    synthetic = draw(arrays(np.bool_, samples))
    values = st.floats(-100, 100, width=32)
    devices = []
    for number in range(draw(st.integers(least, 4))):
        columns = draw(st.lists(st.integers(0, classes - 1), unique=True, min_size=1))
        devices.append(
            scores(f"d{number}", columns, draw(arrays(np.float32, (samples, len(columns)), elements=values)))
        )
    previous = draw(arrays(np.float32, (samples, classes), elements=values))
    return devices, labels, synthetic, previous


@given(fleets(least=2), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_devices_does_not_matter_to_the_last_bit(fleet, normalise, random):
    devices, *rest = fleet
    shuffled = random.sample(devices, len(devices))
    one, other = label_wise(devices, *rest, normalise), label_wise(shuffled, *rest, normalise)
    assert one.scores.tobytes() == other.scores.tobytes()
    assert (one.betas, one.accuracies, one.plain_mean) == (other.betas, other.accuracies, other.plain_mean)
