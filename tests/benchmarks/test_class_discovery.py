"""The benchmark of class discovery, on clusters of numbers in place of real words."""

import numpy as np
import pytest

from benchmarks.class_discovery.trials import Corpus
from benchmarks.class_discovery.unheard import SENDERS, run_strategy, run_unheard
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.ready_bundles import FOLDER
from model_export.pretraining.evaluation import KEYWORDS

SPEAKERS, TAKES = 80, 6


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Ten words of eighty speakers in the embedding of `base`, far apart."""
    folder = tmp_path_factory.mktemp("bundles")
    for name, ready in {"linear": "base", "hidden": "base_hidden"}.items():
        (folder / f"{name}.auricle").symlink_to(FOLDER / f"{ready}.auricle")
    rng = np.random.default_rng(0)
    manifest = ModelRuntime.open(FOLDER / "base.auricle").manifest
    labels = np.repeat(KEYWORDS, SPEAKERS * TAKES)
    centres = 3 * rng.normal(size=(len(KEYWORDS), 64))
    x = np.repeat(centres, SPEAKERS * TAKES, axis=0) + rng.normal(size=(len(labels), 64))
    speakers = np.tile(np.repeat([f"{who:08x}" for who in range(SPEAKERS)], TAKES), len(KEYWORDS))
    return Corpus(folder, manifest.feature_settings, x.astype(np.float32)[:, None], labels, speakers)


@pytest.mark.slow
def test_a_device_learns_a_word_from_prototypes_that_it_hardly_learns_from_impressions(corpus):
    rows = run_unheard(corpus, "stop", seed=1)
    assert [(row["description"], row["speakers"]) for row in rows] == [
        (kind, count) for kind in ("impressions", "prototypes") for count in SENDERS
    ]
    assert all(row["known"] > 95 and row["mistaken"] < 2 for row in rows)
    assert all(row["recognised"] > 95 for row in rows[3:])


@pytest.mark.slow
def test_the_strategy_teaches_a_word_that_the_device_never_heard(corpus):
    rows = run_strategy(corpus, "stop", seed=1)
    assert [(row["description"], row["speakers"]) for row in rows] == [
        (kind, count) for count in SENDERS for kind in ("strategy", "strategy, labels alone")
    ]
    assert all(row["recognised"] > 80 and row["known"] > 95 and row["mistaken"] < 2 for row in rows[2:])
