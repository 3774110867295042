"""A room's own hours take over from the pretraining's tail, and an owner's word is not lost for being said."""

import numpy as np
import pytest

from edge_client.detection.thresholds import Tail
from edge_client.room.room_tails import BEGIN_PER_HOUR, CLEARLY, FLATTER, LEFT_OUT, QUIET_HOURS, RoomTail

PRIOR = Tail(3.0, 0.7)


def heard(hours, logits, taken=()):
    order = np.argsort(-np.asarray(logits, float))
    own = np.isin(np.arange(len(logits)), taken)[order]
    return RoomTail(PRIOR.level, PRIOR.scale, hours, np.asarray(logits, float)[order], np.ones(len(logits)), own)


def logit_of(threshold):
    return float(np.log(threshold / (1 - threshold)))


@pytest.mark.parametrize("promise", [0.5, 1.0, 2.0, 10.0])
def test_without_hours_the_threshold_is_that_of_the_pretraining_or_little_above(promise):
    begin = max(promise, BEGIN_PER_HOUR)
    flatter = (FLATTER - 1) * PRIOR.scale * np.log(begin / promise)
    assert logit_of(heard(0.0, []).threshold(promise)) == pytest.approx(PRIOR.logit(promise) + flatter, abs=1e-5)


def test_a_quiet_hour_lowers_the_threshold_by_little_and_many_by_more():
    lower = logit_of(heard(0.0, []).threshold(1.0)) - logit_of(heard(1.0, []).threshold(1.0))
    assert 0 < lower < PRIOR.scale * np.log(1 + 1.0 / QUIET_HOURS) + 0.1
    found = [heard(hours, []).threshold(1.0) for hours in (0, 10, 100)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


def test_what_is_heard_several_times_an_hour_tells_in_hours_how_often_higher_scores_come():
    rng = np.random.default_rng(0)
    thresholds = []
    for shift in (-1.0, 0.0, 1.0):
        logits = rng.exponential(PRIOR.scale, size=240) + PRIOR.logit(60.0) + shift
        thresholds.append(logit_of(heard(4.0, logits).threshold(1.0)))
    assert (np.diff(thresholds) > 0.5).all()
    assert (np.diff(thresholds) < 1.0).all()  # the pretraining's is believed, too


@pytest.mark.parametrize("promise", [0.5, 1.0, 2.0])
def test_in_a_room_heard_for_long_the_threshold_is_reached_as_often_as_was_promised(promise):
    hours = 400.0
    logits = np.random.default_rng(0).exponential(1.5, size=round(20 * hours)) + 1.0
    threshold = heard(hours, logits).threshold(promise)
    assert (logits >= logit_of(threshold)).sum() / hours == pytest.approx(promise, rel=0.1)


def test_a_word_that_is_often_said_is_not_lost_unless_its_owner_denies_it():
    hours, words = 100.0, [8.0] * 40
    without = heard(hours, []).threshold(1.0)
    assert heard(hours, words, range(40)).threshold(1.0) == without  # 0.4 an hour
    many = [8.0] * round((LEFT_OUT + 5) * hours)
    said = logit_of(heard(hours, many, range(len(many))).threshold(1.0))
    assert said == pytest.approx(PRIOR.logit(1.0) + CLEARLY)
    assert logit_of(heard(hours, many).threshold(1.0)) == pytest.approx(8.0, abs=0.01)


def test_detections_just_above_the_threshold_count_as_false_accepts():
    logits = np.random.default_rng(0).exponential(0.5, size=500) + PRIOR.logit(1.0)
    tail = heard(100.0, logits, range(500))
    threshold = logit_of(tail.threshold(1.0))
    assert (logits >= threshold).sum() / 100.0 < 1.0 + LEFT_OUT + 0.1
    assert threshold > PRIOR.logit(1.0) + 0.5
