"""Scores of windows: what the trained head says, and how near a window lies to what was taught.

A head that learned from few takes of one person knows where they lie, not where the word ends; a prototype, the mean
direction of the takes and of variants of them, knows how near another window is (Snell et al. 2017, prototypical
networks, with whitened cosines). Where other words are of the pretraining the head is the better of the two, where
they are not the prototype is; both added are better than either everywhere. The head is believed more where it says no:
it has heard noise and talk. docs/results.md has the figures.

Everyday sounds differ from take to take, and the head knows few others, so it counts less there. A label whose takes
are a sound or a word that the front end knows from the start has the classifier's logit besides: that has heard
thousands of them, and of all others. Of a sound without takes it is all that there is.

A long word's parts, such as its beginning alone or twice, have prototypes too. An embedding is a mean over time and
hardly says whether all of a word was there: a window must lie nearer to the word than to its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from edge_client.detection.thresholds import LARGEST, logits
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from fleet_protocol.known import Known
from fleet_protocol.labels import LabelMap


class _Worth(NamedTuple):
    """What a head's logit counts where it says yes and where it says no, and a whitened cosine of 1 more than of 0."""

    yes: float
    no: float
    cosine: float
    near: int = 1  # of many takes so many are nearest


# Of words chosen on Bengali and Gujarati digits, among other digits and in read speech, of some thirty. The head tells
# noise, and a take that was noise, from a word; among words that no network heard it says yes too often. Where both
# counted alike, 14 / 23 and 4 / 13 % of an owner's words were missed at 20 / 10 dB, now 12 / 18 and 2 / 10.
_OF_WORD = _Worth(0.5, 2.0, 30.0, near=3)
# A front end without a classifier of its words has the head alone to tell these from one another: with `base`, 34 and
# not 47 % of them are missed at 20 dB so, where two false alarms an hour are allowed. Chosen on Mandarin words.
_OF_ANY_WORD = _Worth(1.0, 1.0, 20.0)
# Of words known from the start chosen on the tuning half of `benchmarks.listening` and in read speech, of some thirty:
# the classifier alone tells them best from other words that it knows, and worst from talk.
_OF_KNOWN_WORD = _Worth(0.2, 0.2, 15.0)
# Of sounds chosen on fifteen kinds of ESC-50 with `sounds_2s`: where each may be heard wrongly once an hour, 47 and 61
# % are missed at 20 and 10 dB, by the head alone 58 and 70; of those with the classifier's logit there too.
_OF_SOUND, _OF_KNOWN = _Worth(0.5, 0.5, 15.0), _Worth(0.2, 0.2, 10.0)
NEUTRAL = 0.5  # the cosine that changes nothing
# How much the cosine loses of what a window is nearer to a part than to the word. Chosen on phrases of two Bengali
# digits that `words` never heard: where 5 % are missed at 20 dB, none of the beginnings alone are heard and not 2 %, of
# those in the other order none and not 5.
LACK = 4.0
# How much of a word's cosine is that to its nearest takes: several people's takes are not one heap. Of many takes three
# are nearest, of few one. Chosen on Bengali and Gujarati digits that four people taught by five takes each: at most ten
# false alarms an hour, 7 / 27 / 39 and 1 / 21 / 44 % of an owner's are missed; with one nearest take for six tenths 11
# / 25 / 44 and 1 / 24 / 45, and the own thresholds made more false alarms. With one person's takes it changes nothing;
# words known from the start are missed more at their own thresholds, and at equal false alarms as often.
_NEAREST, _NEAREST_OF_MANY = 0.6, 0.8
_MANY = 12  # takes
_MOST = 24  # takes that count so


def prototype(
    embeddings: Floats,
    statistics: EmbeddingStatistics,
    takes: Floats | None = None,
    *,
    sound: bool = False,
    known: bool = False,
) -> Floats:
    """Return rows of a label, float32 [takes, numbers]: the largest product with a window's direction is its cosine.

    That is a weighted mean of the cosines to the mean direction of ``embeddings``, takes and variants, [rows, numbers],
    and to the nearest of some of the takes, float32 [takes, variants, numbers]; without these, of the former alone. Of
    many takes of a word that is not ``known`` from the start it is the mean of the three largest products.
    """
    mean = _mean(statistics.directions_as(embeddings, sound=sound))
    if takes is None:
        return np.asarray(mean[None], np.float32)
    some = takes[np.linspace(0, len(takes) - 1, min(len(takes), _MOST)).astype(int)]
    own = np.stack([_mean(statistics.directions_as(variants, sound=sound)) for variants in some])
    several = statistics.known.words and not known and len(own) >= _MANY
    share = _NEAREST_OF_MANY if several else _NEAREST
    return np.asarray((1 - share) * mean + share * own, np.float32)


def _mean(directions: Doubles) -> Doubles:
    mean = directions.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9))


class Scorer:
    """Scores windows for every label of a model; labels without a prototype have the head's score.

    ``known``: by label, what it is that the front end knows from the start (``fleet_protocol.known``).
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
        names = dict(enumerate(label_map.names))
        near = {slot: prototypes[name].astype(np.float64) for slot, name in names.items() if name in prototypes}
        self._near = near  # of each, [1 + parts, takes, numbers]
        # A newer front end may know other sounds than the one that the device last learned by.
        knows = Known() if self._statistics is None else self._statistics.known
        self._known_slots = [slot for slot, name in names.items() if known.get(name) in knows.names]
        self._known_words = {slot for slot in self._known_slots if known[names[slot]] in knows.words}
        self._sounds = tuple(known[names[slot]] for slot in self._known_slots)
        of_word = _OF_WORD if knows.words else _OF_ANY_WORD
        self._worth = {slot: self._worth_of(slot, rows, of_word) for slot, rows in near.items()}

    def _worth_of(self, slot: int, rows: Doubles, of_word: _Worth) -> _Worth:
        if slot in self._known_slots:
            return _OF_KNOWN_WORD if slot in self._known_words else _OF_KNOWN
        split = 0 if self._statistics is None else self._statistics.split
        of_sound = not rows[..., :split].any() if split else self._model.manifest.feature_settings.hears_sounds
        return _OF_SOUND if of_sound else of_word

    def __call__(self, features: Floats) -> Floats:
        """Return the scores, float32 [windows, labels], 0..1, of features, float32 [windows, frames, numbers]."""
        scores = self._model.predict(self._model.normalise(features), self._mask)[:, : self.labels]
        if self._statistics is None or not len(features):
            return scores
        found = logits(scores)
        if self._near:
            directions = self._statistics.directions(features[:, 0])
            for slot, rows in self._near.items():
                head, worth = found[:, slot], self._worth[slot]
                near = worth.near if rows.shape[1] >= _MANY else 1
                cosines = worth.cosine * (_cosines(directions, rows, near) - NEUTRAL)
                found[:, slot] = np.where(head < 0, worth.no, worth.yes) * head + cosines
        if self._known_slots:
            slots = self._known_slots
            taught = np.where(self._mask[slots] > 0, found[:, slots], 0.0)
            found[:, slots] = taught + self._statistics.known.logits(features[:, 0], self._sounds)
        changed = sorted({*self._near, *self._known_slots})
        scores[:, changed] = _probabilities(found[:, changed])
        return scores


def _cosines(directions: Doubles, rows: Doubles, near: int) -> Doubles:
    """Return how near windows lie to a word, float64 [windows], less what they are nearer to one of its parts."""
    whole, *parts = (np.partition(directions @ takes.T, -near, axis=1)[:, -near:].mean(axis=1) for takes in rows)
    return np.asarray(whole - LACK * np.maximum(0.0, np.max(parts, axis=0) - whole)) if parts else whole


def _probabilities(found: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-np.clip(found, -LARGEST, LARGEST))))
