"""A sound that a device never heard: how well it is recognised from what other devices sent of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.class_discovery.corpus import Corpus
from benchmarks.class_discovery.trials import KNOWN, contribution, described, mask_of, settle, shifted
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips
from fleet_protocol.arrays import Bools, Floats
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays

SENDERS = (1, 4, 8)
TAKES = 8
_LEAST_TAKES = 5
KNOWN_CLIPS = 40
_PUBLIC, _TEST = 0.3, 0.2
_EPOCHS, _SETTLE_AT = 25, 18


@dataclass(frozen=True)
class Unheard:
    """How a device recognises a word that others described to it, in per cent.

    Attributes:
        description: what stands for the word: ``impressions`` or ``prototypes`` in the public set, or the ``strategy``
            with that name.
        speakers: devices that described it, with one speaker each.
        word: the word.
        recognised: share of the word's clips that the device names rightly.
        known: the same of the words that it knew.
        mistaken: share of the words that it knew that it takes for the new one.
    """

    description: str
    speakers: int
    word: str
    recognised: float
    known: float
    mistaken: float


def run_unheard(corpus: Corpus, word: str, seed: int) -> list[Unheard]:
    """Have eight devices, of one speaker each, describe a word to a device that never heard it."""
    rng = np.random.default_rng([seed, 2])
    public, test, private = people(corpus, rng)
    public_set, x0 = corpus.public_set(np.isin(corpus.speakers, public), KNOWN, rng)
    uploads = []
    for number, who in enumerate(senders(corpus, private, word, rng)):
        words = (*(KNOWN[(2 * number + place) % len(KNOWN)] for place in range(4)), word)
        arrays = _description(corpus, words, who, np.isin(corpus.speakers, private), x0, rng)
        uploads.append((words, arrays))
    kinds = ("impressions", "prototypes") if corpus.is_embedding else ("impressions",)
    return [
        _learned(corpus, kind, uploads[:count], public_set, word, np.isin(corpus.speakers, test), seed)
        for kind in kinds
        for count in SENDERS
    ]


def people(corpus: Corpus, rng: np.random.Generator) -> list[NDArray[np.str_]]:
    """Deal the speakers: those of the public set, those that are tested on, and the devices'."""
    speakers = rng.permutation(np.unique(corpus.speakers))
    shares = np.cumsum([_PUBLIC, _TEST]) * len(speakers)
    return np.split(speakers, shares.astype(int))


def senders(corpus: Corpus, private: NDArray[np.str_], word: str, rng: np.random.Generator) -> list[str]:
    """Draw the speakers whose devices describe a word; each has enough takes of it."""
    able = corpus.speakers_with(private, {word: _LEAST_TAKES})
    return [str(who) for who in rng.choice(able, SENDERS[-1], replace=False)]


def _description(
    corpus: Corpus, words: tuple[str, ...], who: str, private: Bools, x0: Floats, rng: np.random.Generator
) -> Arrays:
    """Return what a device sends that knows words by many speakers, and the last one by one speaker."""
    rows = [corpus.draw(private, word, KNOWN_CLIPS, rng) for word in words[:-1]]
    rows.append(corpus.draw(corpus.speakers == who, words[-1], TAKES, rng))
    clips = Clips(corpus.x[np.concatenate(rows)][None], np.repeat(np.arange(len(words)), [len(part) for part in rows]))
    return described(corpus.open_model(corpus.front_end.architectures[0]), clips, x0, corpus, rng)


def _learned(
    corpus: Corpus,
    kind: str,
    uploads: Sequence[tuple[tuple[str, ...], Arrays]],
    public_set: PublicSet,
    word: str,
    test: Bools,
    seed: int,
) -> Unheard:
    """Teach a device the public words and the rows that the aggregator made of the uploads; test it on other people."""
    left_out = "prototypes" if kind == "impressions" else None
    contributions = [
        contribution(number, words, {name: array for name, array in arrays.items() if name != left_out})
        for number, (words, arrays) in enumerate(uploads)
    ]
    grown = settle(public_set, contributions, 1).public_set
    model = corpus.open_model(corpus.front_end.architectures[seed % 2])
    count, rng = len(grown.classes), np.random.default_rng([seed, len(uploads), 3])
    mask, targets = mask_of(model, count), from_slots(grown.labels, model.manifest.capacity)
    x = model.normalise(grown.features)
    for epoch in range(_EPOCHS):
        optimiser = Optimiser(corpus.front_end.rate if epoch < _SETTLE_AT else corpus.front_end.rate / 4)
        train_epoch(model, shifted(x, rng), targets, mask, optimiser, rng)
    words = np.array([*KNOWN, word])  # the word has a slot only if the aggregator made a class of it
    rows = np.flatnonzero(test & np.isin(corpus.labels, words))
    guessed = words[model.predict(corpus.x[rows], mask).argmax(axis=1)]
    is_new = corpus.labels[rows] == word
    right = guessed == corpus.labels[rows]
    shares = (right[is_new].mean(), right[~is_new].mean(), (guessed[~is_new] == word).mean())
    return Unheard(kind, len(uploads), word, *(100 * float(share) for share in shares))
