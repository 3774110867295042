"""What the detector is in doubt about: near misses, and detections that barely were one, each told once."""

import numpy as np
import pytest

from edge_client.detection.doubts import REACH, Doubts
from edge_client.detection.thresholds import probability
from fleet_protocol.bundle.feature_settings import PRESETS

HOP_S, THRESHOLD = 0.25, probability(2.0)


def follow(margins, detected=(), labels=None, hop_s=HOP_S):
    """Show so many windows whose scores lie so many logits off the threshold; None: too quiet. Return what is told."""
    told = []
    doubts = Doubts(PRESETS["kws40"], told.append)
    for number, margin in enumerate(margins):
        score = 0.0 if margin is None else 1 / (1 + np.exp(-2.0 - margin))
        doubts.update(
            number * hop_s,
            1000.0 + number * hop_s,
            labels[number] if labels else "bell",
            float(score),
            THRESHOLD,
            None if margin is None else np.full((1, 4), number, np.float32),
            np.full(8, number, np.float32),
            detected=number in detected,
        )
    return told


QUIET = [-9.0] * 8


def test_a_near_miss_is_told_once_with_the_window_of_its_highest_score():
    (doubt,) = follow([*QUIET, -1.5, -0.5, -1.0, *QUIET])
    assert (doubt.label, doubt.detected, doubt.margin) == ("bell", False, pytest.approx(-0.5, abs=1e-4))
    assert (doubt.sound[0], doubt.embedding.tolist()) == (9, [9] * 4)
    assert doubt.time == 1000.0 + 9 * HOP_S


def test_a_detection_is_doubtful_where_its_score_never_rose_far_beyond_the_threshold():
    (doubt,) = follow([*QUIET, -1.0, 0.2, 1.5, *QUIET], detected=[9])
    assert (doubt.detected, doubt.margin) == (True, pytest.approx(1.5, abs=1e-4))
    assert doubt.time == 1000.0 + 9 * HOP_S  # of its event, by which the owner's word is found again
    assert doubt.sound[0] == 9
    assert follow([*QUIET, 0.2, REACH + 0.5, *QUIET], detected=[8]) == []


@pytest.mark.parametrize("margins", [QUIET * 4, [*QUIET, -REACH - 0.1, *QUIET], [None] * 20])
def test_what_is_clear_or_quiet_is_no_doubt(margins):
    assert follow(margins) == []


def test_a_noise_that_stays_near_the_threshold_is_told_seldom_and_ends():
    told = follow([-0.5] * 400)
    assert 1 <= len(told) <= 10  # of a hundred seconds


def test_two_words_that_are_detected_one_after_the_other_are_two_sounds():
    labels = ["bell"] * 10 + ["kettle"] * 20
    told = follow([*QUIET, 0.5, 0.4, 5.0, 4.0, *QUIET, *QUIET], detected=[8, 10], labels=labels)
    assert [doubt.label for doubt in told] == ["bell"]  # the kettle was clear
