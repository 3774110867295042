"""What the fleet says of its classes, as embeddings: where each lies, what comes before it, and what is none of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from edge_client.learning.teaching.heard import Before, states_before
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes

# Centres that stand for a prototype, and their variance about it, divided by the number of its devices.
_CENTRES, _OFF = 100, 2.0


@dataclass(frozen=True)
class FleetSounds:
    """All of it, by class; none of a device that is alone."""

    public_set: PublicSet | None = None
    centres: Mapping[str, Floats] = field(default_factory=dict)  # where it may lie, float32 [centres, numbers]
    denied: Mapping[str, Floats] = field(default_factory=dict)  # what others said is none, float32 [sounds, numbers]
    before: Mapping[str, Before] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        public_set: PublicSet | None,
        prototypes: FleetPrototypes | None,
        statistics: EmbeddingStatistics,
        rng: np.random.Generator,
    ) -> FleetSounds:
        """Return what a device reads of a fleet, as far as it has it."""
        if prototypes is None:
            return cls(public_set)
        denied = {} if prototypes.negatives is None else prototypes.negatives.of_classes()
        return cls(public_set, centres(prototypes, statistics, rng), denied, _orders(prototypes))

    def public(self, class_id: str | None, *, synthetic: bool = False) -> Floats:
        """Return a class's public recordings, float32 [any, numbers]; or all of its rows, ``synthetic`` ones too."""
        if self.public_set is None or class_id not in self.public_set.class_ids:
            return np.zeros((0, 0), np.float32)
        rows = self.public_set.labels == self.public_set.class_ids.index(class_id)
        return np.asarray(self.public_set.features[rows if synthetic else rows & ~self.public_set.synthetic, 0])

    def described(self, class_id: str) -> Floats:
        """Return whatever tells of a class, float32 [any, numbers]."""
        found = self.centres.get(class_id)
        return self.public(class_id, synthetic=True) if found is None else found


def centres(
    prototypes: FleetPrototypes, statistics: EmbeddingStatistics, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return by class where it may lie, float32 [centres, numbers], whose mean is the fleet's prototype."""
    found = {}
    for class_id, mean, devices in zip(prototypes.class_ids, prototypes.means[:, 0], prototypes.devices, strict=True):
        off = statistics.draw(np.zeros_like(mean), _CENTRES, rng)
        found[class_id] = mean + np.float32(np.sqrt(_OFF / devices)) * (off - off.mean(axis=0))
    return found


def _orders(prototypes: FleetPrototypes) -> dict[str, Before]:
    """Return by class the windows that came before it where others taught it, as many as a word of its length has."""
    words = [] if prototypes.order is None else map(prototypes.order.word, range(len(prototypes.class_ids)))
    found = {}
    for class_id, (rows, length_s) in zip(prototypes.class_ids, words, strict=False):
        if states := min(len(rows), states_before(length_s)):
            found[class_id] = Before(rows[:states], length_s)
    return found
