"""Trains a bundle's weights on embeddings, from the bundle's own initial weights: labels and what is no label.

Every teaching starts anew, so that the order in which sounds were taught does not matter and nothing is forgotten.
The graph is the bundle's: rounds go on training the same weights.

Where the fleet has sent sounds too, two heads are trained, one on the device's own takes alone, and their weights are
averaged (Wortsman et al. 2022, WiSE-FT and model soups): so the fleet's sounds cost fewer of the device's own. The head
is linear, and both begin with the same weights, so that their logits are averaged.

What it costs: 60 passes of 50 rows a label, 10 a word of the pretraining and 105 more. With nine labels these are
49,500 rows in about 1,550 steps, with a fleet at most twice that; `python -m benchmarks.arm_instructions` counts a row
of a step on ARMv7. The front end computes eight windows for each new take, up to fourteen more for one of a long word,
and 100 when the device is taught for the first time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.clips.folders import known_labels
from edge_client.config import Config
from edge_client.detection.scores import Scorer, states_before
from edge_client.detection.thresholds import Tail
from edge_client.errors import ModelError, RecordingError
from edge_client.learning.class_links import take_labels
from edge_client.learning.sgd import Optimiser, settling, train_epoch
from edge_client.learning.teaching.advice import Advice, advice_on
from edge_client.learning.teaching.class_trial import Trial, rows_of_class
from edge_client.learning.teaching.head_material import Before, HeadMaterial, head_material
from edge_client.learning.teaching.hearing import Hearing
from edge_client.learning.teaching.lesson import Lesson
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.class_offers import Refused
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays

_CENTRES = 100
_OFF = 2.0
# Weight of the head that has learned the fleet's sounds too; docs/teaching.md says how it was chosen.
_FLEET = 0.8


@dataclass(frozen=True)
class Taught:
    """The result of a teaching; tails and what follows are of :class:`edge_client.storage.saved_model.Progress`."""

    weights: Arrays
    label_map: LabelMap
    clips: int
    advice: tuple[Advice, ...]
    tails: Mapping[str, tuple[float, float]]
    prototypes: Mapping[str, Prototype]
    known: Mapping[str, str]
    unheard: tuple[int, ...]
    tried: tuple[str, ...]  # classes of others that were tried
    refused: Mapping[str, Refused]  # those of them that are not listened for
    lesson: Lesson  # of which prototypes and tails were made


def centres(
    prototypes: FleetPrototypes, statistics: EmbeddingStatistics, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return by class where it may lie, float32 [centres, numbers], whose mean is the fleet's prototype."""
    found = {}
    for class_id, mean, devices in zip(prototypes.class_ids, prototypes.means[:, 0], prototypes.devices, strict=True):
        off = statistics.draw(np.zeros_like(mean), _CENTRES, rng)
        found[class_id] = mean + np.float32(np.sqrt(_OFF / devices)) * (off - off.mean(axis=0))
    return found


def orders(prototypes: FleetPrototypes) -> dict[str, Before]:
    """Return by class the windows that came before it where others taught it, as many as a word of its length has."""
    found = {}
    for index, class_id in enumerate(prototypes.class_ids if prototypes.order is not None else ()):
        assert prototypes.order is not None
        rows, length_s = prototypes.order.word(index)
        if states := min(len(rows), states_before(length_s)):
            found[class_id] = Before(rows[:states], length_s)
    return found


def train_head(
    model: ModelRuntime,
    start: Arrays,
    label_map: LabelMap,
    material: HeadMaterial,
    epochs: int,
    rate: float,
    seed: int,
    own: Arrays | None = None,
) -> Arrays:
    """Return weights that tell labels from one another and from what is no label; the head has background outputs.

    The model's weights are overwritten. ``own`` are weights that learned ``material.own`` before; None: they are
    trained here. Raises ModelError if the training diverged.
    """
    weights = _trained(model, start, label_map, material, epochs, rate, seed)
    head = model.manifest.head.weights
    if material.own is None or set(start) != set(head):  # with a hidden layer, averages of weights are no averages
        return weights
    if own is None:
        own = _trained(model, start, label_map, material.own, epochs, rate, seed)
    # Of an output without takes the own head knows nothing but that it is never right.
    shared = sorted(material.slots & material.own.slots)
    for name in head:
        weights[name][..., shared] = _FLEET * weights[name][..., shared] + (1 - _FLEET) * own[name][..., shared]
    return weights


def _trained(
    model: ModelRuntime, start: Arrays, label_map: LabelMap, material: HeadMaterial, epochs: int, rate: float, seed: int
) -> Arrays:
    rng = np.random.default_rng(seed)
    model.set_weights(start)
    loss = math.nan
    for epoch in range(epochs):
        rows, targets = material.one_pass(label_map.capacity, rng)
        x, optimiser = model.normalise(rows[:, None]), Optimiser(settling(rate, epoch, epochs))
        loss = train_epoch(model, x, targets, label_map.listening_mask, optimiser, rng)
    if not math.isfinite(loss):
        raise ModelError(
            f"learning what was taught diverged (loss {loss}); nothing was changed. Lower [training] "
            f"teach_learning_rate, now {rate:g}"
        )
    return model.get_weights()


def teach_head(config: Config, state: DeviceState, saved: SavedModel, seed: int) -> Taught:
    """Train a head for all labels and for what is no label; both sets of weights become the same.

    Raises RecordingError if there are no labels, or no clip can be read; ModelError if the training diverged.
    """
    model = ModelRuntime(saved.bundle, config.device.threads)
    heard = Hearing(config, model.manifest.feature_settings, state.embeddings_path).heard()
    public_set = state.blobs.public_set(model.manifest.feature_settings)
    fleet = state.blobs.prototypes(model.manifest.feature_settings)
    former = saved.progress.label_map
    statistics = saved.bundle.manifest.embedding_statistics
    assert statistics is not None
    # By label, what the owner chose of what the front end knows from the start.
    chosen = known_labels(config.clips_folder)
    from_start = {label: sound for label, sound in chosen.items() if sound in statistics.known.names}
    label_map = take_labels(former, tuple(dict.fromkeys([*heard.takes, *from_start])), ())
    if not label_map.slots:
        raise RecordingError(f"no readable clips in {config.clips_folder}; record or import some first")
    # A label whose last clip is gone, and which the fleet does not know, is forgotten.
    former_classes = {class_id for class_id in former.class_ids if class_id}
    words = {label: name for label, name in from_start.items() if name in statistics.known.words}
    prototypes = {} if fleet is None else centres(fleet, statistics, np.random.default_rng([seed, 4]))
    denied = {} if fleet is None or fleet.negatives is None else fleet.negatives.of_classes()
    sent = {} if fleet is None else orders(fleet)
    settings, start = config.training, read_bundle(config.bundle).weights
    every_sound = model.manifest.feature_settings.hears_sounds

    def learn(label_map: LabelMap) -> _Learned:
        classes = [slot for slot, class_id in enumerate(label_map.class_ids) if class_id in former_classes]
        material = head_material(label_map, classes, heard, statistics, public_set, prototypes, denied, words)
        epochs, rate = settings.teach_epochs, settings.teach_learning_rate
        weights = train_head(model, start, label_map, material, epochs, rate, seed)
        model.set_weights(weights)  # an average of two: the model has those of the last training
        lesson = Lesson.of(label_map, material, heard, statistics, from_start, sent, hears_sounds=every_sound)
        near = lesson.prototypes()
        scorer = Scorer(model, lesson.label_map, near, lesson.known)
        scores = scorer(*lesson.others(scorer.states, np.random.default_rng([seed, 3])))
        return _Learned(lesson, weights, scorer, near, lesson.tails(scores, near))

    learned = learn(label_map)
    offered = {one.class_id for one in state.offers.all()}
    of_others = {
        slot: rows
        for slot, (name, class_id) in enumerate(zip(label_map.names, label_map.class_ids, strict=True))
        if class_id in offered and name not in heard.takes and name not in from_start
        if (rows := rows_of_class(prototypes.get(class_id or ""), public_set, class_id or "")) is not None
    }
    refused: dict[str, Refused] = {}
    if of_others:
        tails = {label: Tail(*tail) for label, tail in learned.tails.items()}
        promised, near = config.detector.false_accepts_per_hour, learned.prototypes
        trial = Trial(learned.scorer, label_map, tails, near, promised, statistics, heard, public_set)
        for slot, why in trial.refused(of_others).items():
            refused[str(label_map.class_ids[slot])] = why
            label_map = label_map.give_up(slot)
        if refused:
            learned = learn(label_map)
    lesson = learned.lesson
    return Taught(
        weights=learned.weights,
        label_map=label_map,
        clips=sum(len(takes) for takes in heard.takes.values()),
        advice=advice_on(heard, statistics, lesson.material.kinds(label_map), hears_sounds=every_sound),
        tails=learned.tails,
        prototypes=learned.prototypes,
        known=lesson.known,
        unheard=lesson.label_map.off,
        tried=tuple(str(former.class_ids[slot]) for slot in of_others),
        refused=refused,
        lesson=lesson,
    )


@dataclass(frozen=True)
class _Learned:
    lesson: Lesson
    weights: Arrays
    scorer: Scorer
    prototypes: dict[str, Prototype]
    tails: dict[str, tuple[float, float]]
