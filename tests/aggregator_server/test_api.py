"""The public Python interface of the aggregator, and the front door for extensions."""

import numpy as np
import pytest

from aggregator_server.api import AggregationError, WeightCombiner, average_scores, weight_rules
from fleet_protocol.errors import AuricleError


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
