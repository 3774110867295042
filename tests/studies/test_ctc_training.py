"""A network that writes characters learns made-up utterances on the device, and says what it cannot do."""

import numpy as np
import pytest

from edge_client.errors import ModelError
from edge_client.learning.sgd import Optimiser
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import unpack_bundle
from studies.speech.ctc import character_error_rate, greedy, posteriors
from studies.speech.network import build_bundle, preset, specification
from studies.speech.training import Transcriber, train_epoch

MASK = np.ones(5, np.float32)


@pytest.fixture(scope="module")
def bundle():
    """A small bundle that writes characters of `abcd`, of a second of log-mel features, with batches of 5."""
    return unpack_bundle(build_bundle(specification(0.25, 5, preset("log_mel"), "abcd")), "the small network")


@pytest.fixture
def model(bundle):
    return Transcriber(bundle, "abcd")


def utterances(count, seed=0):
    """Features of one to four letters, each a pattern of 15 frames at a place of its own, and the transcripts."""
    patterns = np.random.default_rng(99).normal(size=(5, 1, 40))
    rng = np.random.default_rng(seed)
    x = 0.1 * rng.normal(size=(count, 98, 40))
    transcripts = [rng.integers(1, 5, 1 + number % 4) for number in range(count)]
    for row, transcript in zip(x, transcripts, strict=True):
        for place, symbol in enumerate(transcript):
            start = 22 * place + int(rng.integers(0, 7))
            row[start : start + 15] += patterns[symbol]
    return x.astype(np.float32), transcripts


@pytest.mark.slow
def test_ten_utterances_are_learned_without_an_error(model):
    x, transcripts = utterances(10)
    rng = np.random.default_rng(3)
    for _ in range(200):
        if train_epoch(model, x, transcripts, Optimiser(0.004), rng) < 0.1:
            break
    assert character_error_rate(transcripts, greedy(model.predict(x, MASK))) == 0


def test_a_step_descends_the_ctc_loss_by_its_slope(model):
    x, transcripts = utterances(5)
    start = model.get_weights()
    targets, losses = posteriors(model.predict(x, MASK), transcripts)
    rate = 1e-4
    model.train_step(x, targets, MASK, learning_rate=rate, momentum=0.0)
    after = model.get_weights()
    squared = sum(float((((start[name] - after[name]) / rate) ** 2).sum()) for name in start)
    fallen = losses.mean() - posteriors(model.predict(x, MASK), transcripts)[1].mean()
    # Descending by g costs the loss rate * |g|^2, to first order.
    assert fallen == pytest.approx(rate * squared, rel=0.1)


def test_probabilities_embeddings_and_gradients_have_the_axis_of_the_steps(model):
    manifest = model.manifest
    assert (model.output_shape, manifest.capacity, manifest.embedding) == ((24, 5), 5, 32)
    x, transcripts = utterances(7)
    probabilities = model.predict(x, MASK)
    assert probabilities.shape == (7, 24, 5)
    np.testing.assert_allclose(probabilities.sum(axis=2), 1, atol=1e-5)
    assert model.predict(x[:0], MASK).shape == (0, 24, 5)
    embedded, weights = model.embed(x), model.get_weights()
    logits = embedded @ weights["head/kernel"] + weights["head/bias"]
    shares = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(probabilities, shares, rtol=1e-4, atol=1e-6)
    targets, _ = posteriors(probabilities, transcripts)
    gradient, loss = model.input_gradient(x, targets, MASK)
    step = 0.003 * gradient / np.linalg.norm(gradient)
    up, down = (model.input_gradient(nudged, targets, MASK)[1] for nudged in (x + step, x - step))
    assert loss == pytest.approx(-(targets * np.log(probabilities)).sum(), rel=1e-4)
    assert (gradient * step).sum() == pytest.approx((up - down) / 2, rel=0.02)


def test_what_listens_and_learns_refuses_outputs_over_time(bundle):
    with pytest.raises(ModelError, match=r"dcnn_ctc gives outputs of shape \(24, 5\) .* this program takes \(5,\)"):
        ModelRuntime(bundle)
