"""What a device sends of what its owner denied, and what it believes of others'."""

import numpy as np

from edge_client.learning.negative_prototypes import believed, denied_groups
from fleet_protocol.limits import NEGATIVES


def spoken(statistics, words, count, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([statistics.draw(statistics.means[word], count, rng) for word in words])


def test_unlike_sounds_have_a_mean_each_the_most_frequent_first_in_whatever_order_they_come(statistics):
    directions = statistics.whitened(statistics.means)
    least = np.unravel_index((directions @ directions.T).argmin(), (len(directions),) * 2)
    one, other = spoken(statistics, [least[0]], 6), spoken(statistics, [least[1]], 3)
    mixed = np.concatenate([other, one])
    groups = denied_groups(mixed, statistics)
    assert 2 <= len(groups) <= NEGATIVES
    assert len(groups[0]) >= 4
    assert all(any(np.array_equal(row, mine) for mine in one) for row in groups[0])
    again = denied_groups(mixed[::-1], statistics)
    assert [group.tolist() for group in again] == [group.tolist() for group in groups]
    assert [group.tolist() for group in denied_groups(one[:1], statistics)] == [one[:1].tolist()]
    assert len(denied_groups(spoken(statistics, range(30), 1), statistics)) == NEGATIVES


def test_what_is_the_label_itself_or_another_label_is_not_believed(statistics):
    label, other, third = (statistics.whitened(statistics.means[[word]]) for word in (3, 9, 20))
    sounds = np.concatenate([label, other, third])
    assert believed(sounds, [label], [other]).tolist() == [False, False, True]
    assert believed(sounds, [label, third], []).tolist() == [False, True, False]
    assert believed(sounds, [], []).tolist() == [True, True, True]
