"""What is summed: sums of tables are what the devices have, to the rounding; and nothing overflows."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.rest import Choice
from fleet_protocol.numbers.fixed_point import FixedPoint
from fleet_protocol.secure_sums.layouts import RANGE, SumLayout
from fleet_protocol.secure_sums.roster import largest_group
from tests.support.secure_group import PLAN, plan_of


def ordered(vote_cap: int = 3):
    return dataclasses.replace(PLAN, aggregation=Choice("prototype_mean", {"vote_cap": vote_cap, "order": True}))


@given(st.integers(1, 255), st.sampled_from([1.0, 64.0, 640.0]), st.lists(st.floats(-1, 1), min_size=1, max_size=255))
def test_sums_are_exact_but_for_the_rounding_of_each_number(addends, largest, shares):
    point = FixedPoint.for_sums(addends, largest)
    numbers = np.array(shares[:addends])[:, None] * largest
    total = np.zeros(1, np.uint32)
    for one in numbers:
        total += point.encode(one)
    error = abs(point.decode(total)[0] - numbers.sum())
    assert error <= len(numbers) * (2.0 ** -(point.bits + 1) + 1e-12)


def test_the_largest_numbers_of_the_largest_group_do_not_overflow():
    for size in (4, 8, 128):
        layout = SumLayout.of(plan_of(size), 1, (1, 2))
        one = layout.own({0: ([np.array([[1e9, -1e9]], np.float32)], 100, 0.0)})
        sums = layout.read(np.sum([one] * largest_group(size), axis=0, dtype=np.uint32))
        count = largest_group(size)
        assert sums.devices.tolist() == [[count]]
        assert sums.weights.tolist() == [[3 * count]]
        assert sums.numbers.tolist() == [[[3 * count * RANGE, -3 * count * RANGE]]]


def test_a_table_holds_windows_and_lengths_of_long_words_and_hides_which_classes_a_device_has():
    layout = SumLayout.of(ordered(), 3, (1, 4))
    mean, before = np.full((1, 4), 1.5, np.float32), np.full((1, 4), -2.0, np.float32)
    one = layout.own({0: ([mean, before, before], 2, 1.25), 2: ([mean], 5, 0.0)})
    other = layout.own({0: ([mean, before], 1, 2.0)})
    assert one.shape == other.shape == (layout.length,) == (3 * 6 * 6 + 3,)
    sums = layout.read(one + other)
    assert sums.devices[:, 0].tolist() == [2, 0, 1]
    assert sums.weights[:, 0].tolist() == [3, 0, 3]
    assert sums.devices[0].tolist() == [2, 2, 1, 0, 0, 0]
    assert (sums.numbers[0, 1] == -2.0 * 3).all()
    assert sums.lengths.tolist() == [2 * 1.25 + 1 * 2.0, 0, 0]


@pytest.mark.parametrize(
    "settings", [{}, {"vote_cap": 0}, {"vote_cap": True}, {"vote_cap": "3"}, {"vote_cap": 3, "order": 1}]
)
def test_settings_that_cannot_be_summed_are_refused(settings):
    with pytest.raises(SecureSumError):
        SumLayout.of(dataclasses.replace(PLAN, aggregation=Choice("prototype_mean", settings)), 3, (1, 4))


def test_what_is_too_large_is_refused():
    with pytest.raises(SecureSumError, match="fit into an upload"):
        SumLayout.of(ordered(), 10_000, (1, 408))
    with pytest.raises(SecureSumError, match="too large to be summed"):
        SumLayout.of(dataclasses.replace(ordered(10**6), private=PrivatePlan(128)), 3, (1, 4))
    with pytest.raises(SecureSumError, match="has 5 numbers"):
        SumLayout.of(plan_of(4), 1, (1, 3)).read(np.zeros(4, np.uint32))
    with pytest.raises(SecureSumError):
        SumLayout.of(dataclasses.replace(PLAN, private=None), 1, (1, 3))
