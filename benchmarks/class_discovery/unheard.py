"""A sound that a device never heard: how well it is recognised from what other devices sent of it.

By the strategy `prototypes` it is aggregated as in a round, and learned as when teaching: devices of one speaker each
send the mean embedding of a word that the pretraining did not have, and of four known words by many speakers. A device
without any clip gets the result, and is tested on other people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from benchmarks.class_discovery.trials import KNOWN, Corpus, contribution, described, mask_of, settle, shifted
from edge_client.learning.new_sounds.describe import class_means
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads
from fleet_simulator.simulation.heads import Heads

SENDERS = (1, 4, 8)
TAKES = 8
_LEAST_TAKES = 5
KNOWN_CLIPS = 40
_PUBLIC, _TEST = 0.3, 0.2
_EPOCHS, _SETTLE_AT = 25, 18


@dataclass(frozen=True)
class Unheard:
    """How a device recognises a word that others described to it, in per cent."""

    # what stands for the word: ``impressions`` or ``prototypes`` in the public set, or the ``strategy`` with that name
    description: str
    speakers: int  # devices that described it, with one speaker each
    word: str  # the word
    recognised: float  # share of the word's clips that the device names rightly
    known: float  # the same of the words that it knew
    mistaken: float  # share of the words that it knew that it takes for the new one


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


def run_strategy(corpus: Corpus, word: str, seed: int) -> list[Unheard]:
    """Have up to eight devices tell a device of a word; judge it among all outputs, and among its labels alone."""
    rng = np.random.default_rng([seed, 2])
    public, test, private = people(corpus, rng)
    public_set, _ = corpus.public_set(np.isin(corpus.speakers, public), KNOWN, rng)
    uploads = [
        _upload(corpus, number, word, who, np.isin(corpus.speakers, private), rng)
        for number, who in enumerate(senders(corpus, private, word, rng))
    ]
    rows = []
    for count in SENDERS:
        model, label_map = _fitted(corpus, uploads[:count], public_set, word, seed)
        rows += _judged(corpus, model, label_map, word, np.isin(corpus.speakers, test), count)
    return rows


def _upload(corpus: Corpus, number: int, word: str, who: str, private: Bools, rng: np.random.Generator) -> Contribution:
    words = (*(KNOWN[(2 * number + place) % len(KNOWN)] for place in range(4)), word)
    rows = [corpus.draw(private, known, KNOWN_CLIPS, rng) for known in words[:-1]]
    rows.append(corpus.draw(corpus.speakers == who, word, TAKES, rng))
    slots = np.repeat(np.arange(len(words)), [len(part) for part in rows])
    features = corpus.open_model(corpus.front_end.architectures[0]).denormalise(corpus.x[np.concatenate(rows)])
    arrays: Arrays = {
        "prototypes": class_means(features, slots, range(len(words))),
        "counts": np.array([len(part) for part in rows], np.float32),
    }
    return Contribution(contribution(number, words, {}).update, lambda: arrays)


def _fitted(
    corpus: Corpus, uploads: list[Contribution], public_set: PublicSet, word: str, seed: int
) -> tuple[ModelRuntime, LabelMap]:
    """Return the head that a device without any clip fits to the result of a round, and its labels."""
    aggregator = Aggregator("prototypes", make_plan(RoundRequest("prototypes")), FleetState(public_set))
    aggregator.close(aggregator.work("contribute", 1, aggregator.plan), Uploads(uploads), new_classes=1)
    model = corpus.open_model(corpus.front_end.architectures[seed % 2])
    heads = Heads(model, model.get_weights())
    grown = aggregator.state
    classes = [ClassInfo(name, name if name in KNOWN else word) for name in grown.public_set.class_ids]
    label_map, centres = heads.label_map(classes), heads.centres(grown.prototypes, seed)
    listener = heads.fit(label_map, {}, seed, public_set, centres)
    model.set_weights(listener.weights)
    return model, label_map


def _judged(
    corpus: Corpus, model: ModelRuntime, label_map: LabelMap, word: str, test: Bools, speakers: int
) -> list[Unheard]:
    rows = np.flatnonzero(test & np.isin(corpus.labels, (*KNOWN, word)))
    is_new = corpus.labels[rows] == word
    slots = np.array([label_map.slot_of(str(label)) for label in corpus.labels[rows]])
    scores = model.predict(corpus.x[rows], label_map.listening_mask)
    found = {"strategy": scores, "strategy, labels alone": scores[:, : len(label_map.slots)]}
    judged = []
    for kind, among in found.items():
        guessed = among.argmax(axis=1)
        right = guessed == slots
        taken = guessed[~is_new] == label_map.slot_of(word)
        shares = (100 * float(part.mean()) for part in (right[is_new], right[~is_new], taken))
        judged.append(Unheard(kind, speakers, word, *shares))
    return judged
