"""Scores become events: averaged, above their threshold, once for every sound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.config.sections import DetectorConfig
from edge_client.detection.posterior_handling import Decisions

HOP_S, LABELS = 0.25, ("0", "1", "2")


def handler(*thresholds, average_s=0.75, refractory_s=1.0):
    config = DetectorConfig(refractory_s=refractory_s)
    return Decisions(np.array(thresholds, np.float32)[:, None], LABELS[: len(thresholds)], config, average_s=average_s)


def feed(handler, rows, begin_s=0.0):
    """Return [(seconds, label)] of what was heard."""
    heard = []
    for number, row in enumerate(rows):
        at_s = begin_s + number * HOP_S
        label = handler.update(np.array(row, np.float32), at_s)
        if label is not None:
            heard.append((at_s, label))
    return heard


def test_a_label_waits_while_another_one_is_heard_and_others_do_not():
    config = DetectorConfig(refractory_s=1.0, over_after_s=1.0, waits={"0": ["1"]})
    waiting = Decisions(np.array([0.6, 0.6, 0.6], np.float32)[:, None], LABELS, config, ["1"])
    rows = [(0.7, 0.0, 0.0), (0.0, 0.8, 0.0), (0.9, 0.8, 0.0), (0.9, 0.0, 0.0), (0.9, 0.0, 0.7)]  # 1 is not over yet
    assert feed(waiting, rows) == [(0.0, 0), (0.25, 1), (1.0, 2)]
    assert feed(waiting, [(0.0, 0.0, 0.0)] * 6 + [(0.9, 0.0, 0.0)], 2.0) == [(3.5, 0)]


def test_a_label_that_is_off_is_not_heard_wins_no_window_and_lets_nobody_wait():
    thresholds, rows = np.array([0.6, 0.6], np.float32), [(0.9, 0.0), (0.9, 0.7), (0.0, 0.0)]
    config = DetectorConfig(refractory_s=1.0, over_after_s=1.0, waits={"1": ["0"]})
    for off, heard in ([], [(0.0, 0)]), (["0"], [(0.25, 1)]), (["0", "1"], []):
        assert feed(Decisions(thresholds[:, None], LABELS[:2], config, ["0"], off), rows) == heard


def test_what_follows_limits_the_score_of_the_window_a_quarter_of_a_second_before():
    rows, limits = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]], np.float32), np.array([0.3, 1.0], np.float32)
    for hop_s, means in ((0.25, [0.9, 0.6, 0.6]), (0.12, [0.9, 0.9, 0.7]), (0.5, [0.9, 0.9, 0.9])):
        one = handler(0.8, 0.8, average_s=0.5)
        found = []
        for number, row in enumerate(rows):
            one.update(row, number * hop_s, limits if number else None)
            found.append(float(one.averaged[0]))
            assert one.averaged[1] == pytest.approx(0.1)
        assert found == pytest.approx(means)
    assert rows.min() == pytest.approx(0.1)  # the caller's scores stay


@pytest.mark.parametrize(
    ("one", "rows", "heard"),
    [
        (handler(0.6, 0.6), [(0, 0), (0, 0), (1, 0), (0, 0), (0, 0)], []),  # one high score alone is not enough
        (handler(0.6, 0.6), [(0, 0), (0, 0), (0, 1), (0, 1), (0, 1)], [(0.75, 1)]),  # the average reaches it
        (handler(0.6, 0.6, average_s=0), [(0, 0), (0.7, 0)], [(0.25, 0)]),
        (handler(0.9, 0.4), [(0.5, 0.5)] * 6, []),  # the best label decides, and it does not reach its threshold
        (handler(0.9, 0.4), [(0.45, 0.5)] * 6, [(0.0, 1)]),
        (handler(0.6, 0.6), [(1, 0)] * 400, [(0.0, 0)]),  # a sound that lasts is heard once
        (handler(0.6, 0.6, average_s=0), [(0.7, 0.3), (0.5, 0.5)] * 100, [(0.0, 0)]),  # and one that flickers
        (handler(), [()] * 5, []),
    ],
)
def test_a_sound_is_heard_once_when_the_average_of_the_best_label_reaches_its_threshold(one, rows, heard):
    assert feed(one, rows) == heard


def test_a_sound_that_lasts_is_over_after_a_pause_that_is_long_enough_and_its_end_is_when_it_was_heard_last():
    config = DetectorConfig(refractory_s=1.0, over_after_s=2.0)
    lasting = Decisions(np.array([0.6, 0.6], np.float32)[:, None], LABELS[:2], config, ["0"])
    cry = [(1, 0)] * 4 + [(0, 0)] * 6  # 1 s, and a pause of 1.5 s
    heard, ends = [], []
    for number, row in enumerate([*cry, *cry, *cry, *[(0, 1)] * 20]):
        at_s = number * HOP_S
        if (label := lasting.update(np.array(row, np.float32), at_s)) is not None:
            heard.append((at_s, label))
        ends += lasting.ended
        assert lasting.sounding == ((0,) if not ends else ())
    assert heard == [(0.0, 0), (7.5, 1)]  # the word's own release is not waited for
    assert ends == [(0, 5.75)]


def test_a_label_comes_again_after_its_release_and_refractory_time():
    sound = [(1, 0)] * 3 + [(0, 0)] * 4
    heard = feed(handler(0.6, 0.6, refractory_s=1.0), sound * 3)
    assert [label for _, label in heard] == [0, 0, 0]
    assert len(feed(handler(0.6, 0.6, refractory_s=10.0), sound * 3)) == 1


# No subnormal numbers: the runtime of a 32-bit Pi, once loaded, has its process round them to zero.
@given(
    rows=st.lists(st.tuples(*[st.floats(0, 1, width=32, allow_subnormal=False)] * 3), max_size=80),
    refractory_s=st.sampled_from([0.0, 0.5, 2.0]),
    average_s=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=100)
def test_whatever_comes_no_label_is_heard_twice_within_its_refractory_time(rows, refractory_s, average_s):
    one = handler(0.5, 0.3, 0.8, refractory_s=refractory_s, average_s=average_s)
    heard = feed(one, rows)
    for label in range(3):
        times = [at_s for at_s, other in heard if other == label]
        assert all(b - a >= refractory_s for a, b in itertools.pairwise(times))
    if rows and average_s:
        assert one.averaged == pytest.approx(np.mean(rows[-round(average_s / HOP_S) :], axis=0), abs=1e-6)
