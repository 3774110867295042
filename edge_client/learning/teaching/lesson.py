"""One lesson: from what a device heard, and what its fleet sent, to what it listens with; it opens nothing.

Every lesson starts anew, so that the order in which sounds were taught does not matter and nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from edge_client.config.sections import TrainingConfig
from edge_client.detection.scores import Scorer
from edge_client.detection.thresholds import Tail
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.heard import Embeddings
from edge_client.learning.teaching.material import Material, material_of
from edge_client.learning.teaching.prototypes import prototypes_of
from edge_client.learning.teaching.tails import tails_of
from edge_client.learning.teaching.trial import Trial
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.fleet_classes import Refused
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.tensors import Arrays


@dataclass(frozen=True)
class Taught:
    """What a device listens with; ``material`` has its labels."""

    material: Material
    weights: Arrays
    prototypes: Mapping[str, Prototype]
    tails: Mapping[str, Tail]
    tried: tuple[str, ...] = ()  # classes of others that were tried
    refused: Mapping[str, Refused] = field(default_factory=dict)  # those of them that are not listened for


@dataclass(frozen=True)
class Lesson:
    """All that a lesson is computed from; the weights of ``model`` are overwritten."""

    model: ModelRuntime
    start: Arrays  # weights to begin with, the bundle's own
    label_map: LabelMap  # of all labels
    heard: Embeddings
    chosen: Mapping[str, str]  # by label, which built-in sound or word its owner says it is
    fleet: FleetSounds
    offered: Collection[str]  # classes of others, which are tried
    training: TrainingConfig
    promised: float  # false alarms an hour of a label
    seed: int

    def learn(self) -> Taught:
        """Learn all labels, but for classes of others that the trial refuses.

        Raises ModelError if the training diverged.
        """
        taught, scorer = self._learn(self.label_map)
        label_map, class_ids = self.label_map, list(map(str, self.label_map.class_ids))
        of_others = {
            slot: rows
            for slot, (name, class_id) in enumerate(zip(label_map.names, class_ids, strict=True))
            if class_id in self.offered and name not in self.heard.takes and name not in self.chosen
            if len(rows := self.fleet.described(class_id))
        }
        if not of_others:
            return taught
        refused = Trial(taught.material, scorer, taught.prototypes, taught.tails, self.promised).refused(of_others)
        for slot in refused:
            label_map = label_map.give_up(slot)
        if refused:
            taught, _ = self._learn(label_map)
        tried = tuple(class_ids[slot] for slot in of_others)
        return replace(taught, tried=tried, refused={class_ids[slot]: why for slot, why in refused.items()})

    def _learn(self, label_map: LabelMap) -> tuple[Taught, Scorer]:
        classes = [slot for slot, class_id in enumerate(label_map.class_ids) if class_id]
        material = material_of(label_map, classes, self.heard, self.model.manifest, self.fleet, self.chosen)
        epochs, rate = self.training.teach_epochs, self.training.teach_learning_rate
        weights = train_head(self.model, self.start, material, epochs, rate, self.seed)
        self.model.set_weights(weights)  # an average of two: the model has those of the last training
        prototypes = prototypes_of(material)
        scorer = Scorer(self.model, material.listening_labels, prototypes, material.built_in)
        scores = scorer(*material.others(scorer.states, np.random.default_rng([self.seed, 3])))
        return Taught(material, weights, prototypes, tails_of(material, prototypes, scores)), scorer
