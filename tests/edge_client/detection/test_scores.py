"""What the head says and how near a window lies to a word's prototype, in one score."""

import numpy as np
import pytest

from edge_client.detection.scores import STATES, Scorer, windows_before
from edge_client.detection.thresholds import logits
from edge_client.learning.teaching.heard import states_before
from edge_client.learning.teaching.prototypes import directions_before, prototype
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle


@pytest.fixture(params=["base", "words_and_sounds"])
def model(request):
    return ModelRuntime(read_bundle(find_bundle(request.param)))


def alone(rows):
    """A prototype of one window, whatever came before."""
    return Prototype(rows[None], np.zeros((0, rows.shape[1]), np.float32))


def labels_of(model):
    return LabelMap(model.manifest.capacity, reserved=len(model.manifest.background)).add("mine").add("other")


def test_a_words_score_is_a_share_of_the_heads_logit_and_of_the_cosine_above_a_half(model):
    statistics, labels = model.manifest.embedding_statistics, labels_of(model)
    rows = statistics.samples[:6, :4].reshape(-1, statistics.means.shape[1])
    near = prototype(rows[:4], statistics)
    features = rows[:, None]
    kernel = np.random.default_rng(0).normal(0, 0.1, model.get_weights()["head/kernel"].shape).astype(np.float32)
    bias = np.where(np.arange(kernel.shape[1]) == 0, 5, 0).astype(np.float32)
    model.set_weights({"head/kernel": kernel, "head/bias": bias})  # says yes to some and no to others
    head = model.predict(model.normalise(features), labels.listening_mask)[:, :2]
    scores = Scorer(model, labels, {"mine": alone(near)})(features)
    assert (scores.shape, scores.dtype) == ((24, 2), np.float32)
    cosines = statistics.directions(rows) @ near[0].astype(np.float64)
    said = logits(head[:, 0])
    wanted = said + 20 * (cosines - 0.5)
    if statistics.known.words:  # a front end with a classifier of its words
        wanted = np.where(said < 0, 2.0, 0.5) * said + 30 * (cosines - 0.5)
    assert said.min() < 0 < said.max()
    np.testing.assert_allclose(logits(scores[:, 0]), np.clip(wanted, -15, 15), atol=0.05)
    np.testing.assert_array_equal(scores[:, 1], head[:, 1])  # a label without a prototype has the head's score
    assert cosines[:4].min() > cosines[4:].max()


def test_a_prototype_is_the_mean_direction_of_the_takes_whatever_their_order():
    statistics = read_bundle(find_bundle("base")).manifest.embedding_statistics
    takes = statistics.samples[3]
    near = prototype(takes, statistics)
    assert near.shape == (1, 64)
    assert np.linalg.norm(near) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(prototype(takes[::-1], statistics), near, atol=1e-6)
    cosines = statistics.directions(statistics.means) @ near[0]
    assert int(cosines.argmax()) == 3


@pytest.mark.parametrize(
    ("bundle", "each", "share", "nearest"), [("base", 8, 0.6, 1), ("words", 4, 0.6, 1), ("words", 8, 0.8, 3)]
)
def test_a_word_that_several_people_taught_is_as_near_as_the_nearest_of_their_takes(bundle, each, share, nearest):
    """Two people say a word as two words of the pretraining; a mean of both lies in between. Of many takes three count,
    where the front end has a classifier of its own words.
    """
    model = ModelRuntime(read_bundle(find_bundle(bundle)))
    statistics, labels = model.manifest.embedding_statistics, labels_of(model)
    takes = np.concatenate([statistics.samples[3, :each], statistics.samples[9, :each]])
    rows, windows = takes, statistics.varied.means
    directions = statistics.directions(windows)
    mean, near = prototype(rows, statistics), prototype(rows, statistics, takes[:, None])
    assert near.shape == takes.shape
    apart = statistics.directions(rows)
    wanted = (1 - share) * (directions @ mean[0]) + share * np.sort(directions @ apart.T)[:, -nearest:].mean(axis=1)
    np.testing.assert_allclose(np.sort(directions @ near.T)[:, -nearest:].mean(axis=1), wanted, atol=1e-5)
    head = model.predict(model.normalise(windows[:, None]), labels.listening_mask)[:, 0]
    scores = Scorer(model, labels, {"mine": alone(near)})(windows[:, None])[:, 0]
    yes, no, cosine = {"base": (1, 1, 20), "words": (0.5, 2, 30)}[bundle]
    found = np.where(logits(head) < 0, no, yes) * logits(head) + cosine * (wanted - 0.5)
    np.testing.assert_allclose(logits(scores), np.clip(found, -15, 15), atol=0.05)
    own = prototype(rows, statistics, takes[:, None], built_in=True)
    np.testing.assert_allclose(own, 0.4 * mean + 0.6 * apart, atol=1e-5)
    assert set(np.argsort(-wanted)[:2].tolist()) == {3, 9}
    assert len(prototype(rows, statistics, np.repeat(takes[:, None], 5, axis=0))) == 24  # of more some count


@pytest.mark.parametrize(("length_s", "states"), [(0.45, 0), (0.55, 1), (1.0, 1), (1.15, 2), (2.2, 4), (3.0, 5)])
def test_a_longer_word_has_more_states_of_which_each_counts_alike(model, length_s, states):
    assert states_before(length_s) == states
    if states:
        rows = model.manifest.embedding_statistics.samples[:states]
        shares = np.linalg.norm(directions_before(rows, length_s, model.manifest.embedding_statistics), axis=1)
        assert (1 - shares.sum()) / shares[-1] == pytest.approx(1.5 if length_s >= 0.65 else 4, rel=1e-4)
        assert shares[:-1] == pytest.approx(shares[1:])


@pytest.mark.parametrize(("length_s", "share"), [(0.55, 0.2), (0.65, 0.4), (1.5, 4 / 7)])
def test_of_a_long_word_the_windows_before_count_too(model, length_s, share):
    statistics, labels = model.manifest.embedding_statistics, labels_of(model)
    states = states_before(length_s)
    word, *parts = statistics.samples[3 : 4 + states]
    another = statistics.samples[0]
    near, ago = prototype(word, statistics), directions_before(np.stack(parts), length_s, statistics)
    assert np.linalg.norm(ago, axis=1).sum() == pytest.approx(share, abs=1e-6)
    scorer = Scorer(model, labels, {"mine": Prototype(near[None], ago)})
    windows = np.repeat(word[:1], 3, axis=0)[:, None]
    earlier = np.full((STATES, 3, 1, word.shape[1]), np.nan, np.float32)
    for state, part in enumerate(parts):
        earlier[state, :2, 0] = part[0], another[0]
    now, after, other, unknown = logits(np.concatenate([scorer(windows[:1]), scorer(windows, earlier)])[:, 0])
    # Where the stream has just begun, the word is judged by what there is.
    assert unknown == pytest.approx(now, abs=1e-4)
    assert after > other + 1.0
    shares = np.linalg.norm(ago, axis=1)
    now = statistics.directions(word[:1]) @ near[0].astype(np.float64)
    expected = []
    for window in range(2):
        then = [(statistics.directions(earlier[s, window]) @ ago[s]).item() / shares[s] for s in range(states)]
        cosines = [now.item(), *then]
        mean = float(np.average(cosines, weights=[1 - shares.sum(), *shares]))
        # What the least lacks counts too; of a word that is hardly long, less.
        expected.append(mean - 0.45 * min(1, share / 0.4) * (mean - min(cosines)))
    head = logits(model.predict(model.normalise(windows[:1]), labels.listening_mask)[:, 0])[0]
    yes, no, cosine = (0.5, 2, 30) if statistics.known.words else (1, 1, 20)
    wanted = (yes if head > 0 else no) * head + cosine * (np.array(expected) - 0.5)
    assert (after, other) == pytest.approx(np.clip(wanted, -15, 15).tolist(), abs=0.05)


def test_what_follows_a_long_word_says_how_high_the_scores_before_may_be(model):
    statistics, labels = model.manifest.embedding_statistics, labels_of(model)
    word, silence, talk, other = statistics.samples[3:7]
    near = prototype(word, statistics)[None]
    ways = np.stack([prototype(rows, statistics)[0] for rows in (silence, talk)])
    rows = np.concatenate([silence[:2], talk[:2], other[:2]])
    mine = Prototype(near, near[0], neutral=0.4, after=ways)
    scorer = Scorer(model, labels, {"mine": mine, "other": mine._replace(after=None)})
    limits = scorer.limits(scorer.windows(rows[:, None]))
    assert (limits.shape, limits.dtype) == ((6, 2), np.float32)
    nearest = (statistics.directions(rows) @ ways.T.astype(np.float64)).max(axis=1)
    wanted = 2 + (30 if statistics.known.words else 20) * (nearest - 0.4)
    np.testing.assert_allclose(logits(limits[:, 0]), np.clip(wanted, -15, 15), atol=0.2)  # near 1 floats are coarse
    assert limits[:4, 0].min() > limits[4:, 0].max()
    assert (limits[:, 1] == 1).all()  # of a label of which nobody knows what follows it
    assert scorer.limits(scorer.windows(rows[:0, None])).shape == (0, 2)


def test_the_window_of_half_a_second_ago_is_found_at_every_pace_that_has_one():
    paces = {0.05: 10, 0.1: 5, 0.25: 2, 0.256: 2, 0.5: 1, 0.3: 0, 0.35: 0, 1.0: 0}
    assert {hop_s: windows_before(hop_s) for hop_s in paces} == paces
