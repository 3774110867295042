"""A sound that a device never heard: how well it is recognised from what other devices sent of it.

By the strategy `prototypes` it is aggregated as in a round, and learned as when teaching: devices of one speaker each
send the mean embedding of a word that the pretraining did not have, and of four known words by many speakers. A device
without any clip gets the result, and is tested on other people.

A row says which ``description`` stood for the ``word`` (``impressions`` or ``prototypes`` in the public set, or the
``strategy`` with that name), by how many ``speakers``, and in per cent: clips of the word ``recognised``, clips of
``known`` words recognised, and clips of these ``mistaken`` for the word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from benchmarks.class_discovery.trials import (
    ARCHITECTURES,
    KNOWN,
    RATE,
    Corpus,
    contribution,
    described,
    mask_of,
    prototypes,
    settle,
)
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.learning.training_data import Clips
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads
from fleet_simulator.simulation.heads import Heads

SENDERS = (1, 4, 8)
TAKES = 8
_LEAST_TAKES = 5
_KNOWN_CLIPS = 40
_PUBLIC, _TEST = 0.3, 0.2
_EPOCHS, _SETTLE_AT = 25, 18
Row = dict[str, Any]
Sent = Sequence[tuple[tuple[str, ...], Arrays]]
"""Words and arrays of every device's upload."""


def run_unheard(corpus: Corpus, word: str, seed: int) -> list[Row]:
    """Have eight devices, of one speaker each, describe a word to a device that never heard it."""
    rng, public_set, test, private = _dealt(corpus, seed)
    sent = []
    for words, clips in _clips(corpus, private, word, rng):
        sent.append((words, described(corpus.open_model(ARCHITECTURES[0]), clips, rng)))
    return [
        _learned(corpus, kind, sent[:count], public_set, word, test, seed)
        for kind in ("impressions", "prototypes")
        for count in SENDERS
    ]


def run_strategy(corpus: Corpus, word: str, seed: int) -> list[Row]:
    """Have up to eight devices tell a device of a word; judge it among all outputs, and among its labels alone."""
    rng, public_set, test, private = _dealt(corpus, seed)
    model = corpus.open_model(ARCHITECTURES[0])
    sent = [(words, prototypes(model, clips)) for words, clips in _clips(corpus, private, word, rng)]
    return [row for count in SENDERS for row in _fitted(corpus, sent[:count], public_set, word, test, seed)]


def _dealt(corpus: Corpus, seed: int) -> tuple[np.random.Generator, PublicSet, NDArray[np.str_], NDArray[np.str_]]:
    """Deal the speakers: return the public set of some, those that are tested on, and the devices'."""
    rng = np.random.default_rng([seed, 2])
    speakers = rng.permutation(np.unique(corpus.speakers))
    public, test, private = np.split(speakers, (np.cumsum([_PUBLIC, _TEST]) * len(speakers)).astype(int))
    return rng, corpus.public_set(np.isin(corpus.speakers, public), KNOWN, rng), test, private


def _clips(
    corpus: Corpus, people: NDArray[np.str_], word: str, rng: np.random.Generator
) -> Iterator[tuple[tuple[str, ...], Clips]]:
    """Yield words and clips of each device: of known words by many speakers, of the last one by one speaker."""
    able, private = corpus.speakers_with(people, {word: _LEAST_TAKES}), np.isin(corpus.speakers, people)
    for number, who in enumerate(rng.choice(able, SENDERS[-1], replace=False)):
        words = (*(KNOWN[(2 * number + place) % len(KNOWN)] for place in range(4)), word)
        rows = [corpus.draw(private, known, _KNOWN_CLIPS, rng) for known in words[:-1]]
        yield words, corpus.clips([*rows, corpus.draw(corpus.speakers == who, word, TAKES, rng)])


def _learned(
    corpus: Corpus, kind: str, sent: Sent, public_set: PublicSet, word: str, test: NDArray[np.str_], seed: int
) -> Row:
    """Teach a device the public words and the rows that the aggregator made of the uploads; test it on other people."""
    left_out = "prototypes" if kind == "impressions" else None
    contributions = [
        contribution(number, words, {name: array for name, array in arrays.items() if name != left_out})
        for number, (words, arrays) in enumerate(sent)
    ]
    grown = settle(public_set, contributions, 1).public_set
    model = corpus.open_model(ARCHITECTURES[seed % 2])
    count, rng = len(grown.classes), np.random.default_rng([seed, len(sent), 3])
    mask, targets = mask_of(model, count), from_slots(grown.labels, model.manifest.capacity)
    x = model.normalise(grown.features)
    for epoch in range(_EPOCHS):
        optimiser = Optimiser(RATE if epoch < _SETTLE_AT else RATE / 4)
        train_epoch(model, x, targets, mask, optimiser, rng)
    words = np.array([*KNOWN, word])  # the word has a slot only if the aggregator made a class of it
    rows = np.flatnonzero(np.isin(corpus.speakers, test) & np.isin(corpus.labels, words))
    guessed = words[model.predict(corpus.x[rows], mask).argmax(axis=1)]
    return _row(kind, len(sent), word, corpus.labels[rows], guessed)


def _fitted(
    corpus: Corpus, sent: Sent, public_set: PublicSet, word: str, test: NDArray[np.str_], seed: int
) -> Iterator[Row]:
    """Yield the rows of the head that a device without any clip fits to the result of a round."""
    aggregator = Aggregator("prototypes", make_plan(RoundRequest("prototypes")), FleetState(public_set))
    uploads = [contribution(number, words, arrays) for number, (words, arrays) in enumerate(sent)]
    aggregator.close(aggregator.work("contribute", 1, aggregator.plan), Uploads(uploads), new_classes=1)
    model = corpus.open_model(ARCHITECTURES[seed % 2])
    heads, grown = Heads(model, model.get_weights()), aggregator.state
    classes = [ClassInfo(name, name if name in KNOWN else word) for name in grown.public_set.class_ids]
    label_map, centres = heads.label_map(classes), heads.centres(grown.prototypes, seed)
    model.set_weights(heads.fit(label_map, {}, seed, public_set, centres).weights)
    rows = np.flatnonzero(np.isin(corpus.speakers, test) & np.isin(corpus.labels, (*KNOWN, word)))
    scores = model.predict(corpus.x[rows], label_map.listening_mask)
    names = np.array([*label_map.names, *[""] * (scores.shape[1] - len(label_map.names))])
    for kind, among in (("strategy", scores), ("strategy, labels alone", scores[:, : len(label_map.slots)])):
        yield _row(kind, len(sent), word, corpus.labels[rows], names[among.argmax(axis=1)])


def _row(kind: str, speakers: int, word: str, said: NDArray[np.str_], guessed: NDArray[np.str_]) -> Row:
    is_new, right = said == word, guessed == said
    shares = {"recognised": right[is_new], "known": right[~is_new], "mistaken": guessed[~is_new] == word}
    row: Row = {"description": kind, "speakers": speakers, "word": word}
    return row | {name: 100 * float(part.mean()) for name, part in shares.items()}
