"""How good a front end is on speakers and words that it never heard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import Scatter
from model_export.pretraining.corpus import NOISE

KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
"""The ten keywords of Speech Commands' task of twelve classes (Warden 2018)."""
_UNKNOWN = "_unknown_"
_DRAWS = 20
_MOST_CLIPS = 40  # of a word, tested in one draw


@dataclass(frozen=True)
class Confusion:
    """A word that is taken for another."""

    word: str  # what was said
    taken_for: str  # what it was taken for
    percent: float  # share of the word's clips


@dataclass(frozen=True)
class ClosedSet:
    """Accuracy on words of the training, by speakers who were left out."""

    clips: int  # number of clips
    classes: int  # number of classes
    percent: float  # share that is recognised
    confusions: tuple[Confusion, ...]  # the most frequent ones


@dataclass(frozen=True)
class FewShot:
    """Accuracy on words that were left out, each known from a few takes; mean of 20 draws."""

    corpus: str  # which words
    takes: int  # takes of each word by each speaker who taught it
    speakers: int  # speakers who taught each word
    ways: int  # words to choose from
    # share of other takes of these speakers that is recognised, per cent; None: there are none
    same_speaker: float | None
    other_speakers: float | None  # the same of takes by speakers who taught no word; None: there are none


def closed_set(logits: Floats, classes: Sequence[str], words: NDArray[np.str_]) -> ClosedSet:
    """Return the accuracy of logits [clips, classes] where ``words`` are right."""
    return _compared(np.array(classes)[logits.argmax(axis=1)], words, len(set(classes)))


def twelve_classes(logits: Floats, classes: Sequence[str], words: NDArray[np.str_], shares: Floats) -> ClosedSet:
    """Return the accuracy on ten keywords, every other word as one class, and noise.

    The probabilities of the other words are added up. The task has twelve classes of about equal size, the training
    has not: noise is a thirtieth of it. So the probabilities are divided by the classes' shares of the training.
    ``logits``: float32 [clips, classes]; ``classes``: words, and noise; ``words``: what was said.
    """
    groups = np.array([_group(word) for word in classes])
    names = (*KEYWORDS, _UNKNOWN, NOISE)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = [probabilities[:, groups == name].sum(axis=1) / max(shares[groups == name].sum(), 1e-9) for name in names]
    summed = np.stack(scores, axis=1)
    right = np.array([_group(str(word)) for word in words])
    return _compared(np.array(names)[summed.argmax(axis=1)], right, len(names))


def _group(word: str) -> str:
    return word if word in (*KEYWORDS, NOISE) else _UNKNOWN


def _compared(guessed: NDArray[np.str_], right: NDArray[np.str_], classes: int) -> ClosedSet:
    pairs, counts = np.unique(np.stack([right, guessed])[:, guessed != right], axis=1, return_counts=True)
    shares = [
        Confusion(str(word), str(taken), round(100 * int(count) / int((right == word).sum()), 1))
        for (word, taken), count in zip(pairs.T, counts, strict=True)
    ]
    shares.sort(key=lambda confusion: -confusion.percent)
    percent = 100 * float((guessed == right).mean()) if len(right) else 0.0
    return ClosedSet(len(right), classes, round(percent, 2), tuple(shares[:12]))


def few_shot(
    corpus: str, embeddings: Floats, words: NDArray[np.str_], speakers: NDArray[np.str_], statistics: Scatter, seed: int
) -> list[FewShot]:
    """Teach words by takes and recognise others: nearest prototype by whitened cosine, over 20 draws.

    A prototype is the mean of its takes' directions. Cases for which the corpus has too few clips are left out.
    """
    directions = statistics.whitened(embeddings)
    results = []
    for takes, by in ((5, 1), (10, 1), (5, 2), (5, 4), (1, 5), (1, 10), (1, 20)):
        draws = [
            draw
            for number in range(_DRAWS)
            if (draw := _draw(directions, words, speakers, takes, by, np.random.default_rng([seed, takes, by, number])))
        ]
        if len(draws) == _DRAWS:
            same, other = (_mean([draw[part] for draw in draws]) for part in (0, 1))
            results.append(FewShot(corpus, takes, by, len(set(words.tolist())), same, other))
    return results


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(100 * float(np.mean(known)), 1) if known else None


def _draw(
    directions: Doubles,
    words: NDArray[np.str_],
    speakers: NDArray[np.str_],
    takes: int,
    by: int,
    rng: np.random.Generator,
) -> tuple[float | None, float | None] | None:
    """Teach every word once; return the shares that are recognised of the teachers' other takes, and of others'."""
    vocabulary = sorted(set(words.tolist()))
    able = {word: _able(speakers[words == word], takes) for word in vocabulary}
    everywhere = sorted(set.intersection(*map(set, able.values())))
    common = rng.permutation(everywhere)[:by].tolist() if len(everywhere) >= by else None
    taught: list[int] = []
    teachers: dict[str, list[str]] = {}
    prototypes = []
    for word in vocabulary:
        if len(able[word]) < by + 1:
            return None
        teachers[word] = common or rng.permutation(able[word])[:by].tolist()
        clips = [np.flatnonzero((words == word) & (speakers == who)) for who in teachers[word]]
        chosen = np.concatenate([rng.permutation(rows)[:takes] for rows in clips])
        taught += chosen.tolist()
        prototypes.append(directions[chosen].mean(axis=0))
    matrix = np.stack([prototype / np.linalg.norm(prototype) for prototype in prototypes])
    anybody = sorted(set().union(*teachers.values()))
    rest = np.setdiff1d(np.arange(len(words)), taught)

    def share(is_tested: Callable[[int], bool]) -> float | None:
        by_word = []
        for index, word in enumerate(vocabulary):
            tested = [row for row in rest[words[rest] == word] if is_tested(row)]
            rows = rng.permutation(tested)[:_MOST_CLIPS].astype(int)
            if len(rows):
                by_word.append(float(((directions[rows] @ matrix.T).argmax(axis=1) == index).mean()))
        return float(np.mean(by_word)) if by_word else None

    same = share(lambda row: speakers[row] in teachers[str(words[row])])
    return same, share(lambda row: speakers[row] not in anybody)


def _able(speakers: NDArray[np.str_], takes: int) -> list[str]:
    """Return the speakers with so many takes, and one more to test where they are asked for several."""
    names, counts = np.unique(speakers, return_counts=True)
    return [str(name) for name in names[counts >= (takes if takes == 1 else takes + 1)]]
