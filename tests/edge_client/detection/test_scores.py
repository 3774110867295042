"""What the head says and how near a window lies to a word's prototype, in one score."""

import numpy as np
import pytest

from edge_client.detection.scores import Scorer, prototype
from edge_client.detection.thresholds import logits
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle


@pytest.fixture(params=["base", "words_and_sounds"])
def model(request):
    return ModelRuntime(read_bundle(find_bundle(request.param)))


def labels_of(model):
    return LabelMap(model.manifest.capacity, reserved=len(model.manifest.background)).add("mine").add("other")


def test_a_score_is_the_heads_logit_and_twenty_times_the_cosine_above_a_half(model):
    statistics, labels = model.manifest.embedding_statistics, labels_of(model)
    rows = statistics.samples[:6, :4].reshape(-1, statistics.means.shape[1])
    near = prototype(rows[:4], statistics)
    features = rows[:, None]
    head = model.predict(model.normalise(features), labels.listening_mask)[:, :2]
    scores = Scorer(model, labels, {"mine": near[None]})(features)
    assert (scores.shape, scores.dtype) == ((24, 2), np.float32)
    cosines = statistics.word_directions(rows) @ near.astype(np.float64)
    wanted = logits(head[:, 0]) + 20 * (cosines - 0.5)
    np.testing.assert_allclose(logits(scores[:, 0]), np.clip(wanted, -15, 15), atol=0.05)
    np.testing.assert_array_equal(scores[:, 1], head[:, 1])  # a label without a prototype has the head's score
    assert cosines[:4].min() > cosines[4:].max()


def test_a_prototype_is_the_mean_direction_of_the_takes_whatever_their_order():
    statistics = read_bundle(find_bundle("base")).manifest.embedding_statistics
    takes = statistics.samples[3]
    near = prototype(takes, statistics)
    assert near.shape == (64,)
    assert np.linalg.norm(near) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(prototype(takes[::-1], statistics), near, atol=1e-6)
    cosines = statistics.word_directions(statistics.means) @ near
    assert int(cosines.argmax()) == 3
