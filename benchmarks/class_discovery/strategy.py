"""A sound that a device never heard, by the strategy `prototypes`: aggregated as in a round, learned as when teaching.

Devices of one speaker each send the mean embedding of a word that the pretraining did not have, and of four known
words by many speakers. A device without any clip gets the result, and is tested on other people.
"""

from __future__ import annotations

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.prototypes import aggregate
from benchmarks.class_discovery.corpus import Corpus
from benchmarks.class_discovery.trials import KNOWN, contribution
from benchmarks.class_discovery.unheard import KNOWN_CLIPS, SENDERS, TAKES, Unheard, people, senders
from edge_client.config.sections import TrainingConfig
from edge_client.learning.new_sounds.class_means import class_means
from edge_client.learning.teaching.fleet_centres import centres
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import Heard, head_material
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays


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
        model, label_map = _learned(corpus, uploads[:count], public_set, word, seed)
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


def _learned(
    corpus: Corpus, uploads: list[Contribution], public_set: PublicSet, word: str, seed: int
) -> tuple[ModelRuntime, LabelMap]:
    """Return the head that a device without any clip fits to the result of a round, and its labels."""
    result = aggregate(
        RoundInputs(
            round_id=1,
            plan=make_plan(RoundRequest("prototypes")),
            public_set=public_set,
            consensus=_NO_CONSENSUS,
            contributions=tuple(uploads),
            new_classes=1,
            has_consensus=False,
        )
    )
    model = corpus.open_model(corpus.front_end.architectures[seed % 2])
    manifest, statistics = model.manifest, model.manifest.embedding_statistics
    assert result.prototypes is not None
    assert statistics is not None
    classes = [(name, name if name in KNOWN else word) for name in result.public_set.class_ids]
    label_map = LabelMap(manifest.capacity, reserved=len(manifest.background)).adopt(classes)
    nothing = np.zeros((0, manifest.input_shape[1]), np.float32)
    of_fleet = centres(result.prototypes, statistics, np.random.default_rng([seed, 4]))
    material = head_material(
        label_map, range(len(classes)), Heard({}, nothing, nothing), statistics, public_set, _nothing_imagined, of_fleet
    )
    epochs, rate = TrainingConfig().teach_epochs, TrainingConfig().teach_learning_rate
    train_head(model, model.get_weights(), label_map, material, epochs, rate, seed)
    return model, label_map


_NO_CONSENSUS = np.zeros((0, 0), np.float32)


def _nothing_imagined(slot: int) -> Floats:
    raise AssertionError(f"slot {slot} has neither recordings nor a prototype")


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
