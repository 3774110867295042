"""Connectionist temporal classification (Graves et al. 2006): its gradient as soft targets, greedy reading, error rate.

A transcript is heard in many ways: each character lasts one step or more, and blanks stand anywhere between characters.
The loss is minus the logarithm of the sum of their probabilities. With q_tc, the share of that sum in which step t says
c, its gradient with respect to the logits is p_tc - q_tc: that of the bundle's own loss with q as targets
(model_export/trainable.py). So the graph needs nothing of this, and q is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edge_client.errors import ModelError
from fleet_protocol.numbers.arrays import Array, Doubles, Floats, Ints

BLANK = 0
_LEAST = 1e-30  # stands for probabilities that float32 rounds to 0, so that every way stays possible


def indices(text: str, characters: str) -> Ints:
    """Return a text as outputs of the head, int64 [length].

    Raises ModelError if a character is not one of the bundle's.
    """
    for character in text:
        if character not in characters:
            raise ModelError(f"{text!r} has {character!r}, but the bundle writes {characters!r}: spell it with these")
    return np.array([1 + characters.index(character) for character in text], np.int64)


def text_of(symbols: Array, characters: str) -> str:
    """Return outputs of the head, without blanks, as a text."""
    return "".join(characters[symbol - 1] for symbol in symbols)


def posteriors(probabilities: Floats, transcripts: Sequence[Array]) -> tuple[Floats, Doubles]:
    """Return the targets with which a training step descends the CTC loss, and that loss.

    Targets, float32 [n, steps, symbols], say how likely each symbol is at each step, given the transcript; losses,
    float64 [n], are minus the logarithm of the transcript's probability. Raises ModelError if the transcripts do not
    fit.

    Args:
        probabilities: float32 [n, steps, symbols], as predicted by the weights that are to be trained.
        transcripts: n arrays of integers 1 to symbols - 1; a transcript can be empty.
    """
    rows, steps, symbols = probabilities.shape
    _require_fitting(transcripts, rows, steps, symbols)
    if not rows:
        return np.zeros_like(probabilities), np.zeros(0)
    states, lengths = _states(transcripts)
    logs = np.log(np.maximum(probabilities, _LEAST, dtype=np.float64))
    heard = np.take_along_axis(logs, states[:, None, :], axis=2)
    mirror = np.maximum(lengths[:, None] - 1 - np.arange(states.shape[1]), 0)
    backwards = np.take_along_axis(heard[:, ::-1], mirror[:, None, :], axis=2)
    inside = np.arange(states.shape[1]) < lengths[:, None]
    # Forwards and backwards in time are the same sum over mirrored rows, and one loop over both is the quicker.
    both = np.where(np.tile(inside, (2, 1))[:, None], np.concatenate([heard, backwards]), -np.inf)
    sums = _prefix_sums(both, np.concatenate([states, np.take_along_axis(states, mirror, axis=1)]))
    before, behind = sums[:rows], np.take_along_axis(sums[rows:, ::-1], mirror[:, None, :], axis=2)
    ways = np.where(inside[:, None], before + behind - heard, -np.inf)
    totals = _log_sum(ways)
    shares = np.exp(ways - totals[..., None])
    targets = shares @ np.eye(symbols)[states]
    return targets.astype(np.float32), -totals[:, -1]


def greedy(probabilities: Floats) -> list[Ints]:
    """Return what is likeliest at each step, without repetitions and blanks: n arrays of integers, of float [n, ..]."""
    best = probabilities.argmax(axis=2)
    new = best != BLANK
    new[:, 1:] &= best[:, 1:] != best[:, :-1]
    return [row[keep] for row, keep in zip(best, new, strict=True)]


def character_error_rate(said: Sequence[Sequence[object] | Array], heard: Sequence[Sequence[object] | Array]) -> float:
    """Return insertions, deletions and substitutions for each character that was said; nan where none was.

    Raises ModelError if there are more of one than of the other, or a single text stands for many.
    """
    if isinstance(said, str) or isinstance(heard, str) or len(said) != len(heard):
        raise ModelError("the error rate compares as many texts that were heard as were said; pass two lists of them")
    total = sum(len(text) for text in said)
    errors = sum(_edits(list(one), list(other)) for one, other in zip(said, heard, strict=True))
    return errors / total if total else float("nan")


def _require_fitting(transcripts: Sequence[Array], rows: int, steps: int, symbols: int) -> None:
    """Refuse transcripts that cannot be those of the probabilities."""
    if len(transcripts) != rows:
        raise ModelError(f"{len(transcripts)} transcripts cannot be those of {rows} utterances; give one of each")
    for number, transcript in enumerate(transcripts):
        if len(transcript) and not 1 <= np.min(transcript) <= np.max(transcript) < symbols:
            raise ModelError(
                f"transcript {number} holds {np.min(transcript)} to {np.max(transcript)}, but this model's characters "
                f"are 1 to {symbols - 1}; 0 is the blank, which no transcript has"
            )
        # Between two equal characters a blank must stand.
        needed = len(transcript) + int((np.diff(transcript) == 0).sum())
        if needed > steps:
            raise ModelError(
                f"transcript {number} has {len(transcript)} characters and needs {needed} steps; this model has "
                f"{steps}: leave the utterance out, cut it in parts, or build the bundle for longer clips"
            )


def _states(transcripts: Sequence[Array]) -> tuple[Ints, Ints]:
    """Return each transcript with blanks around every character, int64 [n, longest], and how long each is."""
    lengths = np.array([2 * len(transcript) + 1 for transcript in transcripts], np.int64)
    states = np.full((len(transcripts), int(lengths.max())), BLANK, np.int64)
    for row, transcript in zip(states, transcripts, strict=True):
        row[1 : 2 * len(transcript) : 2] = transcript
    return states, lengths


def _prefix_sums(heard: Doubles, states: Ints) -> Doubles:
    """Return the log probability of being in each state at each step, however it was reached: [n, steps, states].

    Args:
        heard: log probability of each state's symbol at each step, [n, steps, states]; -inf behind the last state.
        states: symbols of the states, [n, states].
    """
    # A blank between two different characters can be left out.
    leaps = np.full(states.shape, -np.inf)
    leaps[:, 2:][(states[:, 2:] != BLANK) & (states[:, 2:] != states[:, :-2])] = 0.0
    count = states.shape[1]
    sums = np.full((len(heard), heard.shape[1], count + 2), -np.inf)  # two states in front, from which nothing comes
    sums[:, 0, 2:4] = heard[:, 0, :2]
    for step in range(1, heard.shape[1]):
        last = sums[:, step - 1]
        ways = np.logaddexp(last[:, 2:], last[:, 1:-1])
        np.logaddexp(ways, last[:, :-2] + leaps, out=ways)
        np.add(ways, heard[:, step], out=sums[:, step, 2:])
    return sums[:, :, 2:]


def _log_sum(values: Doubles) -> Doubles:
    most = values.max(axis=-1)
    total: Doubles = most + np.log(np.exp(values - most[..., None]).sum(axis=-1))
    return total


def _edits(said: list[object], heard: list[object]) -> int:
    row = list(range(len(heard) + 1))
    for number, one in enumerate(said, start=1):
        corner, row[0] = row[0], number
        for place, other in enumerate(heard, start=1):
            cost = min(corner + (one != other), row[place] + 1, row[place - 1] + 1)
            corner, row[place] = row[place], cost
    return row[-1]
