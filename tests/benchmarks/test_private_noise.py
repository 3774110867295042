"""What noise costs a fleet, on made-up takes of words that a front end knows."""

import numpy as np
import pytest

from benchmarks.private_heads import right
from benchmarks.private_noise import Fleet
from benchmarks.takes import Takes, open_embedding

PEOPLE, WORDS = 24, 12


@pytest.fixture(scope="module")
def takes():
    _, statistics = open_embedding("base")
    rng = np.random.default_rng(0)
    drawn = [statistics.draw(mean, 6 * PEOPLE, rng) for mean in statistics.means[:WORDS]]
    speakers = np.tile([f"s{n % PEOPLE}" for n in range(6 * PEOPLE)], WORDS)
    words = np.repeat([f"w{n}" for n in range(WORDS)], 6 * PEOPLE)
    return Takes(np.concatenate(drawn), words, speakers, statistics)


def test_a_large_fleet_recognises_strangers_through_the_noise_and_a_small_one_finds_less(takes):
    rng = np.random.default_rng(1)
    fleet = Fleet.deal(takes, 60, rng)
    assert fleet.means.shape == (60, 10, 64)
    plain = fleet.right(fleet.plain())
    assert plain > 0.9
    one, groups, drowned = (fleet.agreed(group, epsilon, rng) for group, epsilon in ((60, 10.0), (8, 20.0), (60, 0.5)))
    assert len(one) == len(groups) == 10
    assert min(fleet.right(one), fleet.right(groups)) > plain - 0.1
    assert len(drowned) < 3
    assert fleet.right({}) == 0


def test_devices_of_strangers_have_none_of_the_clips_that_are_recognised(takes):
    fleet = Fleet.deal(takes, 200, np.random.default_rng(2))
    assert len(fleet.clips) == len(fleet.labels) == 8 * 6 * 10
    assert not (fleet.means == 0).all(axis=2).any()


def test_a_fleets_head_is_right_without_noise_and_with_little_and_guesses_with_much(takes):
    fleet = Fleet.deal(takes, 60, np.random.default_rng(3))
    plain, little, much = (right(fleet, 2, epsilon, 1.0, np.random.default_rng(4)) for epsilon in (0.0, 10.0, 0.01))
    assert plain > 0.9
    assert little > plain - 0.1
    assert much < 0.5
