"""Heads on a pretrained front end: what a device fits that is taught, with or without a fleet (docs/teaching.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from edge_client.config.sections import TrainingConfig
from edge_client.learning.class_links import take_labels
from edge_client.learning.rounds.guard import Evidence, Listener, judge, public_rows
from edge_client.learning.teaching.fleet_sounds import FleetSounds, centres
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.heard import Embeddings
from edge_client.learning.teaching.material import material_of
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays

Takes = Mapping[str, Floats]
"""Embeddings by label, float32 [clips, variants, numbers]; the first variant is the clip itself."""


class Heads:
    """Fits heads of one bundle."""

    def __init__(self, model: ModelRuntime, initial: Arrays) -> None:
        """Take the model that does the work; its weights are overwritten."""
        self.model = model
        self._initial = initial

    @property
    def statistics(self) -> EmbeddingStatistics:
        """Of the pretraining's words."""
        found = self.model.manifest.embedding_statistics
        assert found is not None
        return found

    def label_map(self, classes: Iterable[ClassInfo], taught: Iterable[str] = ()) -> LabelMap:
        """Return the labels of a device that knows the fleet's classes, and was taught some labels."""
        known, manifest = tuple(classes), self.model.manifest
        start = LabelMap(manifest.capacity, reserved=len(manifest.background))
        return take_labels(start.adopt((info.class_id, info.name) for info in known), tuple(taught), known)

    def centres(self, prototypes: FleetPrototypes | None, seed: int) -> dict[str, Floats]:
        """Return by class the centres that the fleet's prototypes stand for."""
        return {} if prototypes is None else centres(prototypes, self.statistics, np.random.default_rng([seed, 4]))

    def fit(
        self,
        label_map: LabelMap,
        takes: Takes,
        seed: int,
        public_set: PublicSet | None = None,
        of_fleet: Mapping[str, Floats] | None = None,
        own: Arrays | None = None,
    ) -> Listener:
        """Return a head for all labels and for what is no label.

        Without a ``public_set`` the device knows its own labels alone. ``of_fleet``: :meth:`centres` of the fleet's
        prototypes. ``own``: weights that learned the device's takes alone, trained where None and needed.
        """
        kept = range(len(label_map.slots)) if public_set is not None else ()
        nothing = np.zeros((0, self.model.manifest.input_shape[-1]), np.float32)
        heard, fleet = Embeddings(takes, nothing, nothing), FleetSounds(public_set, of_fleet or {})
        material = material_of(label_map, kept, heard, self.model.manifest, fleet)
        epochs, rate = TrainingConfig().teach_epochs, TrainingConfig().teach_learning_rate
        taught = own if material.own is not None else None
        weights = train_head(self.model, self._initial, material, epochs, rate, seed, taught)
        return Listener(weights, label_map)

    def refuses(self, own: Listener, result: Listener, takes: Takes, public_set: PublicSet) -> bool:
        """Tell whether a device keeps the head that it had alone, as edge_client/learning/rounds/kept_model.py does."""
        labels = result.label_map
        new = tuple(range(len(own.label_map.slots), len(labels.slots)))
        slots = [np.full(len(clips), own.label_map.slot_of(label)) for label, clips in takes.items()]
        x = np.concatenate([clips[:, :1] for clips in takes.values()])
        taught = Clips(self.model.normalise(x)[None], np.concatenate(slots))
        public = public_rows(
            public_set, self.model.normalise(public_set.features), labels, set(), set(taught.slots.tolist())
        )
        present = Listener(own.weights, replace(labels, off=new))
        return judge(self.model, present, result, Evidence(taught, "taught", public, taught=True)).kept_own
