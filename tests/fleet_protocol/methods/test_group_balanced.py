"""Who is fine-tuned with whom: groups of devices with about equally many clips, and their rounds."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_protocol.methods.group_balanced import group_by_size, rounds_per_group

SIZES = st.dictionaries(st.text("abcdef", min_size=1, max_size=6), st.integers(1, 10_000), min_size=1, max_size=12)


def spread(groups, sizes):
    logs = [np.log([sizes[device] for device in group]) for group in groups]
    return sum(float(((values - values.mean()) ** 2).sum()) for values in logs)


def test_the_papers_ten_clients_fall_into_its_three_groups():
    hours = [8.13, 7.36, 7.19, 7.76, 7.52, 15.57, 15.88, 15.72, 24.26, 24.44]  # table 2
    groups = group_by_size({f"{index}": size for index, size in enumerate(hours)}, 3)
    assert groups == (("0", "1", "2", "3", "4"), ("5", "6", "7"), ("8", "9"))


@given(SIZES, st.integers(1, 5), st.randoms(use_true_random=False))
def test_groups_are_intervals_of_size_as_tight_as_any_and_depend_on_no_order(sizes, count, random):
    groups = group_by_size(sizes, count)
    assert sorted(device for group in groups for device in group) == sorted(sizes)
    distinct = sorted(set(sizes.values()))
    assert len(groups) == min(count, len(distinct))
    ends = [(min(sizes[d] for d in group), max(sizes[d] for d in group)) for group in groups]
    assert all(before[1] < after[0] for before, after in pairwise(ends))

    def cut(breaks):
        edges = [0, *breaks, len(distinct)]
        parts = [set(distinct[a:b]) for a, b in pairwise(edges)]
        return [[device for device in sizes if sizes[device] in part] for part in parts]

    tightest = min(spread(cut(breaks), sizes) for breaks in combinations(range(1, len(distinct)), len(groups) - 1))
    assert spread(groups, sizes) == pytest.approx(tightest, abs=1e-6)
    shuffled = list(sizes.items())
    random.shuffle(shuffled)
    assert group_by_size(dict(shuffled), count) == groups


@pytest.mark.parametrize(
    ("groups", "most", "least", "rounds"),
    [(3, 5, 0, (5, 3, 0)), (3, 5, 5, (5, 5, 5)), (1, 4, 0, (4,)), (2, 1, 0, (1, 0)), (4, 6, 0, (6, 4, 2, 0))],
)
def test_the_smallest_train_longest_among_themselves(groups, most, least, rounds):
    assert rounds_per_group(groups, most, least) == rounds
