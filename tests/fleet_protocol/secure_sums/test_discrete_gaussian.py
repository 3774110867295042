"""The noise: draws have the distribution that the definition says, and a key gives them again."""

import numpy as np
import pytest

from fleet_protocol.errors import SecureSumError
from fleet_protocol.secure_sums.discrete_gaussian import MOST_VARIANCE, discrete_gaussian

KEY = bytes(range(32))


@pytest.mark.parametrize("variance", [1, 2, 7, 30])
def test_small_numbers_come_as_often_as_the_definition_says(variance):
    draws = discrete_gaussian(variance, 200_000, KEY)
    places = np.arange(-60, 61)
    shares = np.exp(-(places**2) / (2 * variance))
    expected = len(draws) * shares / shares.sum()
    found = (draws[:, None] == places[expected > 10]).sum(axis=0)
    apart = (found - expected[expected > 10]) ** 2 / expected[expected > 10]
    assert apart.sum() < len(apart) + 5 * np.sqrt(2 * len(apart))  # chi-squared


@pytest.mark.parametrize("variance", [2**20, MOST_VARIANCE])
def test_large_ones_have_the_moments_of_a_gaussian(variance):
    draws = discrete_gaussian(variance, 100_000, KEY) / np.sqrt(variance)
    moments = [np.mean(draws**power) for power in (1, 2, 3, 4, 6)]
    errors = np.sqrt(np.array([1, 2, 15, 96, 10_170]) / len(draws))
    assert (np.abs(np.array(moments) - [0, 1, 0, 3, 15]) < 5 * errors).all()
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 5 / np.sqrt(len(draws))


def test_a_key_gives_its_draws_again_and_another_key_others():
    draws = discrete_gaussian(1_000, 500, KEY)
    assert draws.dtype == np.int64
    assert np.array_equal(draws, discrete_gaussian(1_000, 500, KEY))
    assert not np.array_equal(draws, discrete_gaussian(1_000, 500, bytes(32)))
    assert discrete_gaussian(5, 0, KEY).shape == (0,)


@pytest.mark.parametrize("variance", [0, -1, MOST_VARIANCE + 1])
def test_a_variance_that_there_is_not_is_refused(variance):
    with pytest.raises(SecureSumError, match="variance"):
        discrete_gaussian(variance, 1, KEY)
