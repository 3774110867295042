"""A threshold follows from how often other sounds score high, and keeps what it promises on sounds of that kind."""

import numpy as np
import pytest

from edge_client.detection.thresholds import Tail
from edge_client.learning.teaching.tails import fit_tails


def sounds(count, level, scale, seed=0):
    """Scores whose logits fall off exponentially, float32 [count, 1]."""
    logits = level + np.random.default_rng(seed).exponential(scale, (count, 1))
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def test_the_tail_of_exponential_logits_is_found_and_a_stream_s_falls_twice_as_fast():
    (tail,) = fit_tails(sounds(20_000, 0.0, 0.8))
    assert tail.scale == pytest.approx(0.8 / 2, rel=0.1)
    share = (sounds(1_000_000, 0.0, 0.8, seed=1) >= tail.threshold(1.0)).mean()
    assert share == pytest.approx(1 / 1_500, rel=0.3)  # of the looks of an hour


def test_each_label_has_a_level_of_its_own_and_all_have_one_scale():
    far, near = fit_tails(np.hstack([sounds(20_000, -6.0, 0.5), sounds(20_000, -2.0, 1.0, seed=1)]))
    assert near.level - far.level == pytest.approx(4.0, abs=2.0)
    assert far.scale == near.scale == pytest.approx(0.75 / 2, rel=0.1)


def test_scores_of_exactly_0_and_1_give_finite_thresholds():
    for value in (0.0, 1.0):
        (tail,) = fit_tails(np.full((100, 1), value, np.float32))
        assert 0.5 <= tail.threshold(1.0) < 1.0


def test_no_threshold_is_below_a_half():
    assert Tail(-5.0, 1.0).threshold(1.0) == 0.5
