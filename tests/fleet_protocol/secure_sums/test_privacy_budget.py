"""Epsilon: what single and several rounds tell, by the definition, by numbers, and by Google's accountant."""

import math

import numpy as np
import pytest

from fleet_protocol.secure_sums.privacy_budget import DELTA, epsilon_of, noise_for, spent_by


@pytest.mark.parametrize("noise", [0.3, 0.5, 1.0, 3.0, 30.0])
def test_epsilon_is_the_least_with_which_what_is_told_exceeds_it_in_delta_alone(noise):
    """delta is the mass by which one density exceeds e^epsilon times the other, here by summing it up."""
    epsilon, step = epsilon_of(spent_by(noise)), noise / 20_000
    x = np.arange(-12 * noise, 12 * noise + 1, step)
    one, other = (np.exp(-((x - mean) ** 2) / (2 * noise**2)) for mean in (1.0, 0.0))
    mass = np.maximum(one - math.exp(epsilon) * other, 0).sum() * step / (noise * math.sqrt(2 * math.pi))
    assert mass == pytest.approx(DELTA, rel=1e-3)


def test_rounds_add_up_and_nothing_told_is_nothing():
    assert epsilon_of(0.0) == 0.0
    assert epsilon_of(spent_by(0.0)) == epsilon_of(1e9) == math.inf
    assert epsilon_of(4 * spent_by(2.0)) == pytest.approx(epsilon_of(spent_by(1.0)))
    assert epsilon_of(spent_by(1.0)) < epsilon_of(2 * spent_by(1.0)) < 2 * epsilon_of(spent_by(1.0))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 10.0, 100.0])
def test_the_noise_for_an_epsilon_comes_to_it_and_never_above(epsilon):
    found = epsilon_of(spent_by(noise_for(epsilon)))
    assert found <= epsilon
    assert found == pytest.approx(epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("noises", [[0.5], [2.0], [1.0, 2.0, 2.0], [3.0] * 40])
def test_it_is_what_the_accountant_of_google_says(noises):
    accounting = pytest.importorskip("dp_accounting", reason="compares with dp-accounting (extra dev)")
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    accountant = PLDAccountant()
    for noise in noises:
        accountant.compose(accounting.GaussianDpEvent(noise))
    found = epsilon_of(sum(map(spent_by, noises)))
    assert found == pytest.approx(accountant.get_epsilon(DELTA), abs=1e-6)
