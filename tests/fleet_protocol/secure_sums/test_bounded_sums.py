"""Sums with noise: nothing that a device adds is longer than the bound, and a sum is the plain one with its noise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.numbers.embedding_statistics import Scatter
from fleet_protocol.secure_sums.bounded_sums import COUNT, LENGTH, BoundedLayout, directions_of, drowns, means_of
from fleet_protocol.secure_sums.roster import largest_group, smallest_group, threshold_of
from tests.support.secure_group import PLAN, replace


def layout_of(noise: float = 1.0, groups: int = 16, classes: int = 14, numbers: int = 24) -> BoundedLayout:
    return BoundedLayout.of(replace(PLAN, private=PrivatePlan(groups, noise)), classes, (1, numbers))


def units(rng, count: int, numbers: int = 24) -> np.ndarray:
    rows = rng.normal(size=(count, numbers))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(0, 2**32), st.integers(0, 14), st.sampled_from([0.05, 0.5, 30.0, 1000.0]), st.sampled_from([4, 128]))
def test_what_a_device_adds_is_never_longer_than_the_bound(seed, classes, noise, groups):
    layout = layout_of(noise, groups)
    rows = units(np.random.default_rng(seed), classes)
    own = layout.point.decode(layout.own({row: (rows[row], row + 1) for row in range(classes)}))
    assert np.linalg.norm(own) <= LENGTH
    rounding = math.sqrt(layout.length) * 2.0**-layout.point.bits
    assert np.linalg.norm(own) >= math.sqrt(min(classes, 10) * (1 + COUNT**2)) - rounding


def test_the_ten_classes_with_most_clips_are_added_and_longer_rows_are_refused():
    layout, rows = layout_of(), units(np.random.default_rng(1), 14)
    sums = layout.read(layout.own({row: (rows[row], row // 2) for row in range(14)}))
    assert (sums.counts == [0, 0, 0, 0, *[1] * 10]).all()
    sums = layout.read(layout.own({row: (rows[row], 2) for row in range(14)}))
    assert (sums.counts == [*[1] * 10, 0, 0, 0, 0]).all()
    np.testing.assert_allclose(sums.directions[:10], rows[:10], atol=2.0**-layout.point.bits)
    with pytest.raises(SecureSumError, match="longer than"):
        layout.own({row: (1.01 * rows[row], 1) for row in range(10)})


@pytest.mark.parametrize(("devices", "noise"), [(9, 0.5), (30, 2.0)])
def test_a_sum_is_the_plain_one_with_noise_of_the_variance_that_was_asked_for(devices, noise):
    layout, rng = layout_of(noise, devices, 200, 100), np.random.default_rng(3)
    own = [layout.own({row: (units(rng, 1, 100)[0], 1) for row in range(n % 10)}) for n in range(devices)]
    fewest = threshold_of(devices)
    noisy = [one + layout.noise(fewest, rng.bytes(32)) for one in own]
    for part in (noisy, noisy[:fewest]):  # all upload, or as few as may
        plain = np.sum(own[: len(part)], axis=0, dtype=np.uint32)
        apart = layout.point.decode(np.sum(part, axis=0, dtype=np.uint32) - plain)
        wanted = layout.deviation_of(len(part), fewest)
        assert wanted >= noise * LENGTH
        assert apart.std() == pytest.approx(wanted, rel=5 / math.sqrt(2 * len(apart)))
        assert abs(apart.mean()) < 5 * wanted / math.sqrt(len(apart))


@pytest.mark.parametrize("noise", [0.05, 1.0, 1000.0])
@pytest.mark.parametrize("groups", [4, 21, 128])
def test_no_group_overflows_and_every_share_of_noise_can_be_drawn(groups, noise):
    layout = layout_of(noise, groups, 1, 2)
    largest, smallest = largest_group(groups), smallest_group(groups)
    most = largest + 12 * layout.deviation_of(largest, threshold_of(largest))
    assert math.ldexp(most, layout.point.bits) < 2**31
    for size in (largest, smallest):
        assert layout.noise(threshold_of(size), bytes(32)).shape == (3,)
        variance = math.ldexp(layout.deviation**2, 2 * layout.point.bits) / threshold_of(size)
        assert variance >= 2**20  # so fine that rounding does not matter, nor that a sum of shares is no discrete one


def test_directions_become_embeddings_again():
    rng = np.random.default_rng(2)
    statistics = Scatter(rng.normal(size=(20, 24)).astype(np.float32), np.cov(rng.normal(size=(24, 90))).astype("f4"))
    means = rng.normal(size=(5, 24)).astype(np.float32)
    found = means_of(statistics, 0.3 * directions_of(statistics, means))
    np.testing.assert_allclose(directions_of(statistics, found), directions_of(statistics, means), atol=1e-5)
    lengths = np.linalg.norm((found - statistics.centre) @ statistics.whitening, axis=1)
    assert np.ptp(lengths) < 1e-3 * lengths[0]


@pytest.mark.parametrize("noise", [-1.0, 0.0, 0.01, 1e4, math.nan, math.inf])
def test_noise_that_there_is_not_is_refused(noise):
    with pytest.raises(SecureSumError, match="noise of a private round"):
        layout_of(noise)


def test_what_is_too_large_is_refused_and_what_drowns_is_known():
    with pytest.raises(SecureSumError, match="fit into an upload"):
        layout_of(classes=100_000, numbers=400)
    with pytest.raises(SecureSumError, match="has 350 numbers"):
        layout_of().read(np.zeros(4, np.uint32))
    assert drowns(2.0, 30, 1)
    assert not drowns(0.5, 30, 1)
    assert drowns(0.5, 8, 1)
    assert not drowns(0.5, 100, 12)
