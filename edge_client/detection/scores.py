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
# digits that `words` never heard: where 5 % are missed at 20 dB, none of the beginnings alone are heard and not 2 %, of
# those in the other order none and not 5.
LACK = 4.0
# How much of a word's cosine is that to its nearest take: several people's takes are not one heap. Chosen on Gujarati
# digits that four people taught: where ten false alarms an hour are allowed, 14 / 30 / 41 % of the owner's are missed
# and not 19 / 38 / 48. With one person's takes it changes nothing.
_NEAREST = 0.6
_MOST = 24  # takes that count so


def prototype(embeddings: Floats, statistics: EmbeddingStatistics, takes: Floats | None = None) -> Floats:
    """Return rows of a word, float32 [takes, numbers]: the largest product with a window's direction is its cosine.

    That is a weighted mean of the cosines to the mean direction of ``embeddings``, takes and variants, [rows, numbers],
    and to the nearest of some of the takes, float32 [takes, variants, numbers]; without these, of the former alone.
    """
    mean = _mean(statistics.word_directions(embeddings))
    if takes is None:
        return np.asarray(mean[None], np.float32)
    some = takes[np.linspace(0, len(takes) - 1, min(len(takes), _MOST)).astype(int)]
    own = np.stack([_mean(statistics.word_directions(variants)) for variants in some])
    return np.asarray((1 - _NEAREST) * mean + _NEAREST * own, np.float32)


def _mean(directions: Doubles) -> Doubles:
    mean = directions.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9))


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
        self._near = [rows.astype(np.float64) for _, rows in near]  # of each, [1 + parts, takes, numbers]
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
            cosines = np.stack([_cosines(directions, rows) for rows in self._near], axis=1)
            found = logits(scores[:, self._slots]) + WORTH * (cosines - NEUTRAL)
            scores[:, self._slots] = _probabilities(found)
        if self._known_slots and self._statistics.known is not None:
            taught = np.where(self._mask[self._known_slots] > 0, logits(scores[:, self._known_slots]), 0.0)
            scores[:, self._known_slots] = _probabilities(
                taught + self._statistics.known.logits(features[:, 0], self._sounds)
            )
        return scores


def _cosines(directions: Doubles, rows: Doubles) -> Doubles:
    """Return how near windows lie to a word, float64 [windows], less what they are nearer to one of its parts."""
    whole, *parts = ((directions @ takes.T).max(axis=1) for takes in rows)
    return np.asarray(whole - LACK * np.maximum(0.0, np.max(parts, axis=0) - whole)) if parts else whole


def _probabilities(found: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-np.clip(found, -LARGEST, LARGEST))))
