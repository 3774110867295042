"""The public Python interface of the aggregator, and the front door for extensions."""

import numpy as np
import pytest

from aggregator_server.api import AggregationError, WeightCombiner, alpha_update, average_scores, weight_rules
from fleet_protocol.errors import AuricleError

WORDS = ("no", "stop", "yes")


def weights(*values):
    return [{"body/kernel": np.full((2, 2), value, np.float32), "body/bias": np.float32([value])} for value in values]


def test_weights_are_combined_by_any_rule():
    start, *uploads = weights(0, 1, 2, 9)
    mean = WeightCombiner().combine(start, uploads, [1, 1, 2])
    np.testing.assert_allclose(mean["body/kernel"], np.full((2, 2), 5.25))
    median = WeightCombiner("median").combine(start, uploads)
    np.testing.assert_allclose(median["body/bias"], [2])
    assert {"weighted_mean", "median", "krum", "lpa"} <= set(weight_rules())
    clipping = WeightCombiner(clip_norm=1.0)
    clipped = clipping.combine(start, uploads)
    assert np.linalg.norm(clipped["body/kernel"]) < 1
    assert clipping.details_["clipped"]


def test_a_server_optimiser_remembers():
    start, upload = weights(0, 1)
    fedavgm = WeightCombiner(server_optimiser="adam", server_learning_rate=0.1)
    first = fedavgm.combine(start, [upload])
    second = fedavgm.combine(first, [upload])
    fresh = WeightCombiner(server_optimiser="adam", server_learning_rate=0.1).combine(first, [upload])
    assert not np.allclose(second["body/bias"], fresh["body/bias"])


def test_what_does_not_fit_is_named():
    start, upload = weights(0, 1)
    with pytest.raises(AggregationError, match="'majority'"):
        WeightCombiner("majority").combine(start, [upload])
    with pytest.raises(AuricleError, match="clip_norms"):
        WeightCombiner(clip_norms=1.0).combine(start, [upload])
    with pytest.raises(AggregationError, match="body/bias"):
        WeightCombiner().combine(start, [{"body/kernel": upload["body/kernel"]}])
    with pytest.raises(AggregationError, match="1 uploads and 2 sizes"):
        WeightCombiner().combine(start, [upload], [1, 2])
    with pytest.raises(AggregationError, match="device 0"):
        average_scores([np.ones((3, 2), np.float32)], [[0]], np.zeros(3, np.int64))


def test_scores_are_averaged_label_by_label_as_in_the_paper():
    labels = np.array([0, 0, 1, 1])
    right = np.float32([[1, 0], [1, 0], [0, 1], [0, 1]])
    half = np.float32([[1, 0], [0, 1], [0, 1], [1, 0]])
    updated = alpha_update(right, np.zeros_like(right), clips=8)
    np.testing.assert_allclose(updated, 2 * right)
    found = average_scores([updated, half], [[0, 1], [0, 1]], labels, normalise=True, above_chance=False)
    assert list(found.accuracies.values()) == [1.0, 0.5]
    np.testing.assert_allclose(found.scores, (1.0 * updated + 0.5 * half) / 1.5, rtol=1e-6)
    alone = average_scores([half[:, :1]], [[2]], labels, previous=np.ones((4, 3), np.float32))
    np.testing.assert_allclose(alone.scores, np.column_stack([np.ones((4, 2)), half[:, 0]]))
