"""Sounds in groups that are alike."""

import numpy as np

from fleet_protocol.numbers.similar_groups import similar_groups


def directions(*angles):
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def test_what_is_alike_is_one_group_and_the_largest_comes_first():
    groups = similar_groups(directions(0, 180, 10, 175, 20, 96))
    assert [group.tolist() for group in groups] == [[0, 2, 4], [1, 3], [5]]
    assert similar_groups(np.zeros((0, 3))) == []
    assert [group.tolist() for group in similar_groups(directions(45))] == [[0]]
    without_direction = similar_groups(np.zeros((2, 4)))
    assert sorted(group.tolist() for group in without_direction) == [[0], [1]]
