"""A room's own hours take over from the pretraining's tail, and an owner's word is not lost for being said."""

import json

import numpy as np
import pytest

from edge_client.detection.room_tails import (
    BEGIN_PER_HOUR,
    CLEARLY,
    FLATTER,
    LEFT_OUT,
    QUIET_HOURS,
    Blocks,
    Reached,
    RoomTail,
)
from edge_client.detection.thresholds import Tail

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


def test_counted_blocks_make_the_tail_of_what_was_heard_whatever_the_label_s_scale_is():
    rng = np.random.default_rng(0)
    steps = rng.exponential(1.0, size=400) - np.log(60.0)
    for prior in (PRIOR, Tail(-1.0, 1.4)):
        reached = Reached()
        for one in steps:
            reached.add(0.01, float(one), None)
        found = reached.tail(prior, ())
        assert found.hours == pytest.approx(4.0, rel=0.1)
        expected = RoomTail(
            prior.level,
            prior.scale,
            found.hours,
            np.sort(prior.level + prior.scale * steps)[::-1],
            np.full(400, found.hours / 4.0),
            np.zeros(400, bool),
        )
        assert logit_of(found.threshold(1.0)) == pytest.approx(
            logit_of(expected.threshold(1.0)), abs=0.15 * prior.scale
        )


def test_what_was_heard_long_ago_counts_less():
    reached = Reached()
    reached.add(1.0, 3.0, None)
    for _ in range(48):
        reached.add(1.0, -np.inf, None)
    assert reached.counts.sum() == pytest.approx(0.25)
    assert reached.hours == pytest.approx(24 / np.log(2), rel=0.3)  # however long it listens


def test_a_denied_detection_is_a_false_accept_and_the_newest_are_told_apart():
    reached = Reached()
    for index in range(1000):
        reached.add(0.01, 5.0, float(100 * index))
    assert len(reached.newest) == 100
    assert reached.tail(PRIOR, ()).counts.sum() == pytest.approx(reached.counts.sum())
    taken = [one.counts[one.taken].sum() for one in (reached.tail(PRIOR, at) for at in ((), [99_900.0], [50.0]))]
    assert taken[0] == taken[2]
    assert taken[1] == pytest.approx(taken[0] - 1.0)


def test_it_comes_back_as_it_was():
    reached, rng = Reached(), np.random.default_rng(0)
    for index in range(500):
        reached.add(0.01, float(rng.normal(0.0, 3.0)), 100.0 * index if index % 7 == 0 else None)
    note = json.loads(json.dumps(reached.to_json()))
    again = Reached.of_json(note)
    assert again.to_json() == note
    assert again.tail(PRIOR, ()).threshold(1.0) == pytest.approx(reached.tail(PRIOR, ()).threshold(1.0), abs=1e-3)


def test_a_block_holds_the_highest_score_of_the_best_label_and_silence_is_none():
    added, counted = [], []
    tails = {"yes": Tail(1.0, 0.5), "no": PRIOR}
    blocks = Blocks(tails, ("yes", "no", "new"), lambda *block: added.append(block), counted.append)

    def hear(scores, detected="", stream=""):
        blocks.look(0.25, None if scores is None else np.array(scores, np.float32), detected, stream)

    for index in range(8):
        hear([0.6 if index == 3 else 0.1, 0.2, 0.5 if index == 6 else 0.0], {3: "yes", 6: "new"}.get(index, ""))
        hear(None, stream="other")
    ((seconds, highest, detected),) = added
    assert (seconds, detected) == (2.0, counted) == (2.0, ["yes", "new"])
    assert highest == pytest.approx({"yes": (np.log(1.5) - 1.0) / 0.5, "no": (np.log(0.25) - 3.0) / 0.7})
    for _ in range(4):
        hear([0.9, 0.0, 0.0])
    for _ in range(4):
        hear(None)
    assert (added[1][0], added[1][1]["no"]) == (1.0, -np.inf)
