"""Training: what is learned, runs that go on from a checkpoint, and the same network in Keras."""

import numpy as np
import pytest
from jax import numpy as jnp
from jax import random

from model_export.errors import ExportError
from model_export.pretraining import conversion, training
from model_export.pretraining.batches import Batches
from model_export.pretraining.corpus import NOISE, Corpus
from model_export.pretraining.network import DESIGNS, Design, frames, initial
from model_export.pretraining.pictures import LOG_POWERS, normalised
from model_export.pretraining.training import Options, State, Training, adam, losses
from model_export.pretraining.variants import Augmentation

DESIGN = Design((3, 4), 8, (12,), 3)


class CutError(Exception):
    """Ends a run where a power cut would."""


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(DESIGNS, "tiny", DESIGN)


@pytest.fixture(scope="module")
def batches():
    """A word that rises, one that falls, and noise."""
    rising = np.repeat(np.arange(100, 198, dtype=np.uint8)[:, None], 40, axis=1)
    noise = np.full((98, 40), 40, np.uint8)
    pixels = np.stack([rising] * 40 + [rising.T[:, ::-1].T] * 40 + [noise] * 4)
    words = np.array(["rising"] * 40 + ["falling"] * 40 + [NOISE] * 4)
    corpus = Corpus(pixels, words, np.array(["somebody"] * len(words)))
    return Batches(corpus, Augmentation(), 16, 0.0, 0)


def options(steps):
    return Options("tiny", steps, 16, 1e-2, warm_up=5, cosine=1.0, checkpoint_s=1e-9)


def test_words_are_learned_and_keras_tells_them_apart(tmp_path, batches):
    reports = []
    run = Training(options(240), batches, tmp_path / "a.checkpoint", "digest")
    pictures, classes = map(jnp.asarray, batches.at(1000))
    before = run._loss(run.state.weights, run.state.moving, pictures, classes)[0]
    run.run(reports.append)
    after = run._loss(run.state.weights, run.state.moving, pictures, classes)[0]
    assert after < 0.5 * before
    assert (reports[-1].step, reports[-1].remaining_s) == (240, 0)
    assert reports[-1].loss < before
    network = conversion.fold({**run.state.weights, **run.state.moving}, DESIGN)
    head = run.head()
    seen = conversion.run(conversion.float32_graph(network), normalised(LOG_POWERS[batches.corpus.pixels[[0, 40]]]))
    logits = seen @ head["head/kernel"] + head["head/bias"]
    assert [batches.corpus.vocabulary[one] for one in logits[:, :-1].argmax(axis=1)] == ["rising", "falling"]
    assert head["head/shares"].sum() == pytest.approx(1)


def test_a_run_that_was_cut_off_comes_to_the_same_weights(tmp_path, batches, monkeypatch):
    monkeypatch.setattr(training, "_PROGRESS_S", 0.0)
    once, later = tmp_path / "once.checkpoint", tmp_path / "later.checkpoint"
    Training(options(20), batches, once, "digest").run(lambda _: None)

    def cut(progress):
        if progress.step == 16:
            raise CutError

    with pytest.raises(CutError):
        Training(options(20), batches, later, "digest").run(cut)
    goes_on = Training(options(20), batches, later, "digest")
    assert goes_on.step == 8
    goes_on.run(lambda _: None)
    assert later.read_bytes() == once.read_bytes()
    with pytest.raises(ExportError, match="corpus 'digest', not 'another'"):
        Training(options(20), batches, later, "another")
    later.write_bytes(b"damaged")
    with pytest.raises(ExportError, match="is damaged"):
        Training(options(20), batches, later, "digest")


@pytest.mark.parametrize("design", [DESIGN, DESIGNS["small"], Design((4,), 8, (12,), 3, bands=53, separable=(4, 6))])
def test_keras_computes_what_was_trained(design):
    """A batch's own statistics as the moving ones: then both normalise alike."""
    weights, moving = initial(design, random.key(1))
    weights = {name: weight + 0.1 for name, weight in weights.items()}
    pictures = np.random.default_rng(0).normal(size=(6, 98, design.bands)).astype(np.float32)
    trained, seen = frames(design, weights, moving, jnp.asarray(pictures), momentum=0.0)
    trained = trained.mean(1)
    folded = conversion.run(conversion.float32_graph(conversion.fold({**weights, **seen}, design)), pictures)
    assert folded.shape == (6, design.embedding)
    assert np.allclose(folded, trained, atol=1e-3 * np.abs(trained).max())


def test_the_cosine_loss_asks_for_a_margin():
    embeddings = jnp.asarray([[3.0, 0.0], [-3.0, 0.0]])
    weights = {"words/kernel": jnp.zeros((2, 2)), "words/bias": jnp.zeros(2), "cosine/kernel": jnp.eye(2)}
    weights["cosine/directions"] = jnp.asarray([[1.0, 0.0], [-1.0, 0.0]])
    found = losses(weights, embeddings, jnp.asarray([0, 1]))
    assert found["words"] == pytest.approx(np.log(2))
    assert found["cosine"] == pytest.approx(np.log1p(np.exp(-24 * (2 - 0.15))), rel=1e-3)


def test_the_first_step_of_adam_moves_every_weight_by_the_rate():
    weights = {"x/kernel": jnp.asarray([2.0]), "x/bias": jnp.asarray([2.0])}
    nothing = {name: jnp.zeros(1) for name in weights}
    gradients = {"x/kernel": jnp.asarray([-0.3]), "x/bias": jnp.asarray([400.0])}
    after = adam(State(weights, {}, nothing, nothing), gradients, jnp.asarray(0), jnp.asarray(0.01))
    assert after.weights["x/bias"][0] == pytest.approx(1.99)
    assert after.weights["x/kernel"][0] == pytest.approx(2.01 - 0.01 * 1e-3 * 2)  # and shrinks
    assert after.means["x/bias"][0] == pytest.approx(0.5, rel=1e-3)  # of a gradient shortened to 5
