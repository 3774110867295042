"""Krum and Multi-Krum: by hand, ties, too few devices, and liars who lie together."""

import numpy as np
import pytest
from hypothesis import given

from aggregator_server.aggregation import krum as module
from aggregator_server.aggregation.krum import krum, multi_krum
from aggregator_server.errors import AggregationError
from tests.support.update_sets import fleets, matrix, updates

# One weight differs: 0, 1, 3, 10, 100. With f = 1 of n = 5 every device is scored by its two nearest.
FIVE = updates([[value, 0, 0, 0, 0, 0] for value in (0, 1, 3, 10, 100)])


def test_of_equal_scores_the_first_device_wins():
    mirrored = updates([[value, 0.1, 0.1, 0.1, 0.1, 0.1] for value in (-0.7, -0.3, 0.3, 0.7)])
    assert krum(mirrored, 0.0).device_ids == ("b",)
    assert multi_krum(mirrored, 0.0, 1.0).device_ids == ("b", "c", "a", "d")


@pytest.mark.parametrize(
    ("devices", "byzantine", "needed"), [(1, 0.0, "3"), (2, 0.2, "3"), (4, 0.25, "5"), (10, 0.4, "11")]
)
def test_too_few_devices_are_refused_with_the_number_that_is_needed(devices, byzantine, needed):
    fleet = updates(np.zeros((devices, 6)))
    for rule in (lambda: krum(fleet, byzantine), lambda: multi_krum(fleet, byzantine, 0.5)):
        with pytest.raises(AggregationError, match=f"needs {needed} uploads, not {devices}"):
            rule()


def test_more_uploads_than_are_compared_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST", 4)
    with pytest.raises(AggregationError, match="at most 4 uploads, and not of 5"):
        krum(FIVE, 0.2)


@given(fleets(least=5, most=8, largest=1))
def test_liars_who_agree_with_each_other_are_not_chosen(case):
    honest, _ = case
    liars = updates(np.vstack([matrix(honest), np.full((2, 6), 1e12)]))  # two of up to ten
    chosen = krum(liars, 2 / len(liars) + 1e-6)
    assert chosen.device_ids[0] in honest.device_ids
    best = multi_krum(liars, 2 / len(liars) + 1e-6, keep=0.5)
    assert set(best.device_ids) <= set(honest.device_ids)
    assert (best.weights <= matrix(honest).max(axis=0) + 1e-6).all()
