"""The noise of a mean embedding: how far one clip can move it, how much noise that gets, and who can repeat it."""

import numpy as np
import pytest

from edge_client.errors import FeatureError
from edge_client.learning.prototype_noise import clipped, noise_rng, private_mean, sensitivity
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import FOLDER

CLIP_NORM, KEY = 8.0, bytes(range(32))


@pytest.fixture(scope="module")
def statistics():
    return read_bundle(FOLDER / "base.auricle").manifest.embedding_statistics


@pytest.fixture
def embeddings(statistics):
    return statistics.draw(statistics.means[3], 12, np.random.default_rng(0))


def whitened(mean, statistics):
    return (mean - statistics.means.mean(axis=0, dtype=np.float64)) @ statistics.whitening


def test_without_noise_it_is_the_plain_mean(embeddings, statistics):
    found = private_mean(embeddings, statistics, 0.0, 0.0, np.random.default_rng(0))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, embeddings.mean(axis=0), rtol=1e-6, atol=1e-6)


def test_no_clip_moves_the_mean_by_more_than_the_sensitivity_and_the_worst_clip_by_all_of_it(embeddings, statistics):
    """Brute force: every clip is replaced by each of many others, up to the two that lie opposite one another."""
    rng = np.random.default_rng(1)
    bound = sensitivity(CLIP_NORM, len(embeddings))
    before = clipped(embeddings, statistics, CLIP_NORM).mean(axis=0)
    moved = []
    for place in range(len(embeddings)):
        opposite = 2 * statistics.means.mean(axis=0) - embeddings[place]
        wild = [scale * rng.standard_normal(embeddings.shape[1]) for scale in (0.1, 1, 1e6)]
        for other in (*statistics.samples[:, 0], *wild, opposite):
            neighbour = embeddings.copy()
            neighbour[place] = other
            moved.append(np.linalg.norm(clipped(neighbour, statistics, CLIP_NORM).mean(axis=0) - before))
    assert max(moved) <= bound * (1 + 1e-6)
    assert max(moved) > 0.99 * bound


def test_replacing_every_clip_moves_the_mean_by_at_most_n_times_as_much(embeddings, statistics):
    opposite = 2 * statistics.means.mean(axis=0) - np.tile(embeddings[0], (12, 1))
    means = [clipped(rows, statistics, CLIP_NORM).mean(axis=0) for rows in (np.tile(embeddings[0], (12, 1)), opposite)]
    assert np.linalg.norm(means[0] - means[1]) == pytest.approx(12 * sensitivity(CLIP_NORM, 12), rel=1e-4)


def test_close_embeddings_are_not_clipped_and_far_ones_keep_their_direction(embeddings, statistics):
    plain = whitened(embeddings, statistics)
    np.testing.assert_allclose(clipped(embeddings, statistics, 1e3), plain, rtol=1e-9)
    short = clipped(embeddings, statistics, 0.5)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 0.5)
    np.testing.assert_allclose(short / 0.5, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(("noise", "count"), [(0.5, 1), (1.0, 4), (3.0, 12)])
def test_the_noise_has_the_stated_scale_in_every_whitened_direction(embeddings, statistics, noise, count):
    rng = np.random.default_rng(2)
    rows = embeddings[:count]
    centre = clipped(rows, statistics, CLIP_NORM).mean(axis=0)
    drawn = np.stack([private_mean(rows, statistics, CLIP_NORM, noise, rng) for _ in range(1500)])
    scaled = (whitened(drawn, statistics) - centre) / (noise * 2 * CLIP_NORM / count)
    assert np.abs(scaled.mean(axis=0)).max() < 5 / np.sqrt(1500)
    covariance = scaled.T @ scaled / 1500
    assert np.abs(np.diag(covariance) - 1).max() < 0.25  # 5 standard errors of a variance and more
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.2
    assert scaled.var() == pytest.approx(1, rel=0.03)


def test_the_same_generator_gives_the_same_bytes(embeddings, statistics):
    found = [
        private_mean(embeddings, statistics, 8.0, 1.0, np.random.default_rng(seed)).tobytes() for seed in (5, 5, 6)
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_device_repeats_its_noise_only_for_equal_clips_and_settings(embeddings):
    def draw(key=KEY, rows=embeddings, clip_norm=8.0, noise=1.0):
        return noise_rng(key, rows, clip_norm, noise).standard_normal(64).tobytes()

    others = [draw(key=bytes(32)), draw(rows=embeddings[:-1]), draw(clip_norm=7.0), draw(noise=2.0)]
    assert draw() == draw() == draw(rows=embeddings[::-1])
    assert len({draw(), *others}) == 5


@pytest.mark.parametrize("key", [b"", b"short", bytes(65)])
def test_a_key_that_can_be_guessed_is_refused(embeddings, key):
    with pytest.raises(FeatureError, match=f"not {len(key)}"):
        noise_rng(key, embeddings, 8.0, 1.0)


@pytest.mark.parametrize(
    ("count", "clip_norm", "noise", "message"),
    [
        (0, 8.0, 1.0, "got 0"),
        (2, 8.0, -1.0, "not -1.0"),
        (2, 8.0, np.nan, "not nan"),
        (2, 0.0, 1.0, "clip_norm"),
        (2, np.inf, 1.0, "clip_norm"),
    ],
)
def test_what_would_protect_nothing_is_refused(embeddings, statistics, count, clip_norm, noise, message):
    with pytest.raises(FeatureError, match=message):
        private_mean(embeddings[:count], statistics, clip_norm, noise, np.random.default_rng(0))


def test_a_number_that_is_not_finite_is_refused(embeddings, statistics):
    embeddings[3, 5] = np.nan
    with pytest.raises(FeatureError, match="finite"):
        private_mean(embeddings, statistics, 8.0, 1.0, np.random.default_rng(0))
