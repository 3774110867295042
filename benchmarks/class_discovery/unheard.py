"""A sound that a device never heard: how well it is recognised from what other devices sent of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator_server.strategies.prototypes import aggregate
from benchmarks.class_discovery.corpus import Corpus
from benchmarks.class_discovery.trials import (
    KNOWN,
    contribution,
    described,
    mask_of,
    prototype_inputs,
    prototype_upload,
    settle,
    shifted,
)
from edge_client.config.sections import TrainingConfig
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import Heard, head_material
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays

SENDERS = (1, 4, 8)
STRATEGY = "strategy"
NO_WORD = ""
TAKES = 8
_LEAST_TAKES = 5
_KNOWN_CLIPS = 40
_PUBLIC, _TEST = 0.3, 0.2
_EPOCHS, _SETTLE_AT = 25, 18


@dataclass(frozen=True)
class Unheard:
    """How a device recognises a word that others described to it, in per cent.

    Attributes:
        description: what stands for the word: in the public set ``impressions`` or ``prototypes``; or the strategy
            ``prototypes``, whose result the device's own teaching fits its head to.
        speakers: devices that described it, with one speaker each.
        word: the word.
        recognised: share of the word's clips that the device names rightly. With the strategy, the outputs for what is
            no label count as well.
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
    speakers = rng.permutation(np.unique(corpus.speakers))
    shares = np.cumsum([_PUBLIC, _TEST]) * len(speakers)
    public, test, private = np.split(speakers, shares.astype(int))
    public_set, x0 = corpus.public_set(np.isin(corpus.speakers, public), KNOWN, rng)
    able = corpus.speakers_with(private, {word: _LEAST_TAKES})
    uploads = []
    for number, who in enumerate(rng.choice(able, SENDERS[-1], replace=False)):
        words = (*(KNOWN[(2 * number + place) % len(KNOWN)] for place in range(4)), word)
        arrays = _description(corpus, words, str(who), np.isin(corpus.speakers, private), x0, rng)
        uploads.append((words, arrays))
    kinds = ("impressions", "prototypes") if corpus.is_embedding else ("impressions",)
    judged = np.isin(corpus.speakers, test)
    rows = [
        _learned(corpus, kind, uploads[:count], public_set, word, judged, seed) for kind in kinds for count in SENDERS
    ]
    if corpus.is_embedding:
        rows += [_taught(corpus, uploads[:count], public_set, word, judged, seed) for count in SENDERS]
    return rows


def _description(
    corpus: Corpus, words: tuple[str, ...], who: str, private: Bools, x0: Floats, rng: np.random.Generator
) -> Arrays:
    """Return what a device sends that knows words by many speakers, and the last one by one speaker."""
    rows = [corpus.draw(private, word, _KNOWN_CLIPS, rng) for word in words[:-1]]
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
    return _judged(kind, corpus, model, mask, word, test, len(uploads))


def _judged(
    kind: str, corpus: Corpus, model: ModelRuntime, mask: Floats, word: str, test: Bools, speakers: int
) -> Unheard:
    """Judge a model whose slots are the known words and then the new one; other outputs are no word."""
    words = np.array([*KNOWN, word])  # the word has a slot only if the aggregator made a class of it
    rows = np.flatnonzero(test & np.isin(corpus.labels, words))
    guessed = np.append(words, NO_WORD)[np.minimum(model.predict(corpus.x[rows], mask).argmax(axis=1), len(words))]
    is_new = corpus.labels[rows] == word
    right = guessed == corpus.labels[rows]
    shares = (right[is_new].mean(), right[~is_new].mean(), (guessed[~is_new] == word).mean())
    return Unheard(kind, speakers, word, *(100 * float(share) for share in shares))


def _taught(
    corpus: Corpus,
    uploads: Sequence[tuple[tuple[str, ...], Arrays]],
    public_set: PublicSet,
    word: str,
    test: Bools,
    seed: int,
) -> Unheard:
    """Have a device without any clip apply the result of a round of the strategy; test it on other people."""
    contributions = [
        prototype_upload(number, words, arrays["prototypes"], (*[_KNOWN_CLIPS] * len(words[:-1]), TAKES))
        for number, (words, arrays) in enumerate(uploads)
    ]
    result = aggregate(prototype_inputs(public_set, contributions))
    model = corpus.open_model(corpus.front_end.architectures[seed % 2])
    manifest, statistics = model.manifest, model.manifest.embedding_statistics
    assert result.prototypes is not None
    assert statistics is not None
    named = [(name, word if name not in KNOWN else name) for name in result.public_set.class_ids]
    label_map = LabelMap(manifest.capacity, reserved=len(manifest.background)).adopt(named)
    nothing = np.zeros((0, manifest.input_shape[1]), np.float32)
    material = head_material(
        label_map, range(len(named)), Heard({}, nothing, nothing), statistics, result.public_set, _nothing_imagined,
        dict(zip(result.prototypes.class_ids, result.prototypes.means, strict=True)),
    )  # fmt: skip
    settings = TrainingConfig()
    train_head(
        model, model.get_weights(), label_map, material, settings.teach_epochs, settings.teach_learning_rate, seed
    )
    return _judged(STRATEGY, corpus, model, label_map.listening_mask, word, test, len(uploads))


def _nothing_imagined(slot: int) -> Floats:
    raise AssertionError(f"slot {slot} has neither recordings nor a prototype")
