"""Liars in private rounds, on made-up words: who is found, and what they take."""

import numpy as np
import pytest

from aggregator_server.discovery.public_embedding import PublicEmbedding
from benchmarks.liars.groups import Corpus, play
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from model_export.pretraining.evaluation import KEYWORDS
from tests.support.embedded_words import NUMBERS, SETTINGS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(len(KEYWORDS), NUMBERS))
    labels = np.arange(50 * len(KEYWORDS)) % len(KEYWORDS)
    rows = centres[labels] + rng.normal(size=(len(labels), NUMBERS))
    infos = tuple(ClassInfo(word, word) for word in KEYWORDS)
    shared = rows[:120].astype(np.float32)[:, None]
    public = PublicSet(SETTINGS, infos, shared, labels[:120].astype(np.int64), np.zeros(120, np.bool_))
    return Corpus(rows[120:], labels[120:], PublicEmbedding(public))


def test_liars_are_found_in_small_groups_and_do_harm_in_large_ones(corpus):
    small, large = (play(corpus, 0.1, size, "fill", 0) for size in (4, 16))
    assert (small["liars found"], small["honest in quarantine"]) == (10, 0)
    assert large["points lost, mean"] > small["points lost, mean"] + 10
