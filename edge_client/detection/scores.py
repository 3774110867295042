"""Scores of windows: what the trained head says, and how near a window lies to what was taught of a word.

A head that learned from few takes of one person knows where they lie, not where the word ends; a prototype, the mean
direction of the takes and of variants of them, knows how near another window is (Snell et al. 2017, prototypical
networks, with whitened cosines). Where other words are of the pretraining the head is the better of the two, where
they are not the prototype is; both added are better than either everywhere. docs/listening.md has the figures.

A sound that the front end knows from the start has its classifier's logit; where takes were taught too, the head's is
added.

A long word's parts, such as its beginning alone or twice, have prototypes too. An embedding is a mean over time and
hardly says whether all of a word was there: a window must lie nearer to the word than to its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from edge_client.detection.thresholds import LARGEST, logits
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from fleet_protocol.labels import LabelMap

# Logits that a whitened cosine of 1 is worth more than one of 0, and the cosine that changes nothing. Chosen on
# Mandarin words with the front end `base`, which never heard them: 10 and 30 were as good within two points.
WORTH, NEUTRAL = 20.0, 0.5
# How much the cosine loses of what a window is nearer to a part than to the word. Chosen on phrases of two Bengali
# digits that `words` never heard: where 5 % are missed at 20 dB, 6 % of beginnings alone are heard and not 19.
LACK = 4.0


def prototype(embeddings: Floats, statistics: EmbeddingStatistics) -> Floats:
    """Return the direction of a word, float32 [numbers] of length 1, from takes and variants, [rows, numbers]."""
    mean = statistics.word_directions(embeddings).mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9), np.float32)


class Scorer:
    """Scores windows for every label of a model; labels without a prototype, as of sounds, have the head's score.

    ``known``: by label, which sound it is that the front end knows from the start (``fleet_protocol.known_sounds``).
    ``labels``: How many labels.
    """

    def __init__(
        self,
        model: ModelRuntime,
        label_map: LabelMap,
        prototypes: Mapping[str, Floats],
        known: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._model = model
        self._mask = label_map.listening_mask
        self.labels = len(label_map.slots)
        self._statistics = model.manifest.embedding_statistics if prototypes or known else None
        near = [(slot, prototypes[name]) for slot, name in enumerate(label_map.names) if name in prototypes]
        self._slots = [slot for slot, _ in near]
        self._directions: Doubles = np.array([rows[0] for _, rows in near], np.float64)
        self._parts = [(column, rows[1:].T) for column, (_, rows) in enumerate(near) if len(rows) > 1]
        from_start = [(slot, known[name]) for slot, name in enumerate(label_map.names) if name in known]
        self._known_slots = [slot for slot, _ in from_start]
        self._sounds = tuple(sound for _, sound in from_start)

    def __call__(self, features: Floats) -> Floats:
        """Return the scores, float32 [windows, labels], 0..1, of features, float32 [windows, frames, numbers]."""
        scores = self._model.predict(self._model.normalise(features), self._mask)[:, : self.labels]
        if self._statistics is None or not len(features):
            return scores
        if self._slots:
            directions = self._statistics.word_directions(features[:, 0])
            cosines = directions @ self._directions.T
            for column, parts in self._parts:
                part = (directions @ parts).max(axis=1)
                cosines[:, column] -= LACK * np.maximum(0.0, part - cosines[:, column])
            found = logits(scores[:, self._slots]) + WORTH * (cosines - NEUTRAL)
            scores[:, self._slots] = _probabilities(found)
        if self._known_slots and self._statistics.known is not None:
            taught = np.where(self._mask[self._known_slots] > 0, logits(scores[:, self._known_slots]), 0.0)
            scores[:, self._known_slots] = _probabilities(
                taught + self._statistics.known.logits(features[:, 0], self._sounds)
            )
        return scores


def _probabilities(found: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-np.clip(found, -LARGEST, LARGEST))))
