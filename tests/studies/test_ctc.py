"""Connectionist temporal classification against all paths, and by hand."""

import itertools

import numpy as np
import pytest

from edge_client.errors import ModelError
from studies.speech.ctc import character_error_rate, greedy, indices, posteriors, text_of


def probabilities(rows, steps, symbols, seed=0):
    shares = np.exp(2 * np.random.default_rng(seed).normal(size=(rows, steps, symbols)))
    return shares / shares.sum(axis=-1, keepdims=True)


def by_all_paths(given, transcript):
    """Targets and loss of one utterance, from every path that spells its transcript."""
    steps, symbols = given.shape
    targets, total = np.zeros((steps, symbols)), 0.0
    for path in itertools.product(range(symbols), repeat=steps):
        # What a path of one symbol a step spells: repetitions are one, blanks are nothing.
        if tuple(symbol for symbol, _ in itertools.groupby(path) if symbol) == tuple(transcript):
            likelihood = np.prod(given[np.arange(steps), path])
            targets[np.arange(steps), path] += likelihood
            total += likelihood
    return targets / total, -np.log(total)


def test_targets_and_losses_are_those_of_all_paths():
    transcripts = [[1, 2], [], [2, 2], [3], [1, 3, 1], [1, 1, 2]]
    given = probabilities(len(transcripts), 5, 4)
    targets, losses = posteriors(given.astype(np.float32), [np.array(one, int) for one in transcripts])
    assert (targets.dtype, losses.dtype) == (np.float32, np.float64)
    for row, transcript in enumerate(transcripts):
        wanted, loss = by_all_paths(given[row], transcript)
        np.testing.assert_allclose(targets[row], wanted, atol=1e-5)
        assert losses[row] == pytest.approx(loss, rel=1e-5)


def test_steps_that_say_the_transcript_for_certain_cost_nothing_and_others_stay_finite():
    sure = np.eye(4, dtype=np.float32)[[[1, 1, 0, 2, 0]]]
    targets, losses = posteriors(sure, [np.array([1, 2])])
    np.testing.assert_allclose(targets, sure, atol=1e-6)
    assert losses[0] == pytest.approx(0, abs=1e-6)
    impossible, dear = posteriors(sure, [np.array([3, 3])])
    assert dear[0] > 100
    np.testing.assert_allclose(impossible.sum(axis=2), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("transcripts", "message"),
    [
        ([[1]], "1 transcripts cannot be those of 2 utterances"),
        ([[1], [0, 2]], "transcript 1 holds 0 to 2, but this model's characters are 1 to 3; 0 is the blank"),
        ([[4], [1]], "transcript 0 holds 4 to 4"),
        ([[1], [1, 2, 3, 1, 2, 3]], "transcript 1 has 6 characters and needs 6 steps; this model has 5"),
        ([[1], [1, 1, 2, 2]], "transcript 1 has 4 characters and needs 6 steps; this model has 5: leave the utterance"),
    ],
)
def test_transcripts_that_do_not_fit_are_refused(transcripts, message):
    given = probabilities(2, 5, 4)
    with pytest.raises(ModelError, match=message):
        posteriors(given, [np.array(one) for one in transcripts])


def test_greedy_reading_drops_repetitions_and_blanks():
    paths = [[0, 1, 1, 0, 1, 2, 2], [0, 0, 0, 0, 0, 0, 0], [3, 3, 2, 3, 3, 0, 0]]
    read = greedy(np.eye(4, dtype=np.float32)[paths])
    assert [row.tolist() for row in read] == [[1, 1, 2], [], [3, 2, 3]]


def test_texts_are_spelled_in_the_bundles_characters():
    symbols = indices("on off", "fno ")
    assert symbols.tolist() == [3, 2, 4, 3, 1, 1]
    assert text_of(symbols, "fno ") == "on off"
    assert indices("", "abc").tolist() == []
    with pytest.raises(ModelError, match="'One' has 'O', but the bundle writes 'abc"):
        indices("One", "abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    ("said", "heard", "rate"),
    [
        (["tree"], ["three"], 1 / 4),
        (["five", "six"], ["fife", ""], 4 / 7),
        (["a"], ["bcd"], 3),
        ([np.array([1, 2, 3])], [np.array([1, 3])], 1 / 3),
    ],
)
def test_the_error_rate_counts_edits_for_each_character_said(said, heard, rate):
    assert character_error_rate(said, heard) == pytest.approx(rate)
