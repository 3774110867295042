"""Scores of windows: what the trained head says, and how near a window lies to what was taught.

A head that learned from few takes of one person knows where they lie, not where the word ends; a prototype, the mean
direction of the takes and of variants of them, knows how near another window is (Snell et al. 2017, prototypical
networks, with whitened cosines). Where other words are of the pretraining the head is the better of the two, where
they are not the prototype is; both added are better than either everywhere. The head is believed more where it says no:
it has heard noise and talk. docs/results.md has the figures.

Everyday sounds differ from take to take, and the head knows few others, so it counts less there. A label whose takes
are a sound or a word that the front end knows from the start has the classifier's logit besides: that has heard
thousands of them, and of all others. Of a sound without takes it is all that there is.

An embedding is a mean over time: it hardly says in which order a word's parts came, nor whether all were there. So a
long word is compared with the newest window and with earlier ones, half a second apart, which held what came before.
Its parts, such as its beginning alone or twice, have prototypes too: a window must lie nearer to the word than to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from edge_client.detection.thresholds import LARGEST, logits
from edge_client.model.prototypes import Prototype
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
BEFORE_S = 0.5
"""Time between two windows that a long word is compared with, s."""
STATES = 5
"""So many windows before the newest one hold a phrase of three seconds."""
# Its share of the cosine, and the lengths of a word, s, from which it counts and from which it counts in full.
_BEFORE, _COUNTS_FROM_S, _COUNTS_FULLY_S = 0.4, 0.45, 0.65
_WEAKEST = 0.45  # how much of what the least cosine lacks is taken away
_ABOUT_S = 0.06  # a window that is so much older or newer will do
_ROUNDING = 1e-6


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


def states_before(length_s: float) -> int:
    """Return how many windows, each half a second older, hold a part of a word of a length, s; 0 of a short one."""
    if length_s <= _COUNTS_FROM_S:
        return 0
    return min(STATES, 1 + max(0, int((length_s - _COUNTS_FULLY_S) / BEFORE_S + _ROUNDING)))


def directions_before(embeddings: Floats, length_s: float, statistics: EmbeddingStatistics) -> Floats:
    """Return ``Prototype.before`` of a word of a length, s, from embeddings of the windows before its takes'.

    These are float32 [states, windows, numbers], the newest state first.
    """
    counts = np.ones(len(embeddings))
    counts[:1] = min(1.0, (length_s - _COUNTS_FROM_S) / (_COUNTS_FULLY_S - _COUNTS_FROM_S))
    shares = _BEFORE * counts / (1 + _BEFORE * counts[1:].sum())
    directions = [_mean(statistics.directions_as(rows, sound=False)) for rows in embeddings]
    return np.asarray(shares[:, None] * np.stack(directions), np.float32)


def weight_of_order(before: Floats | Doubles) -> float:
    """Return how far the order of a word with ``Prototype.before`` counts: 0 of a short one to 1."""
    return min(1.0, float(np.linalg.norm(before, axis=1).sum()) / _BEFORE)


def windows_before(hop_s: float) -> int:
    """Return how many windows ago, one every ``hop_s``, the one of half a second ago was; 0 where none was near it."""
    count = round(BEFORE_S / hop_s)
    return count if abs(count * hop_s - BEFORE_S) <= _ABOUT_S else 0


def earlier_of(windows: Floats, count: int, states: int) -> Floats:
    """Return for each window, float32 [..., windows, numbers], those ``count`` windows ago, twice as many, and so on.

    float32 [states, ..., windows, numbers]; NaN where there is none.
    """
    found = np.full((states, *windows.shape), np.nan, windows.dtype)
    for state in range(1, states + 1):
        if 0 < (ago := state * count) < windows.shape[-2]:
            found[state - 1, ..., ago:, :] = windows[..., :-ago, :]
    return found


def _mean(directions: Doubles) -> Doubles:
    mean = directions.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9))


class Scorer:
    """Scores windows for every label of a model; labels without a prototype have the head's score.

    ``known``: by label, what it is that the front end knows from the start (``fleet_protocol.known``).
    ``labels``: How many labels. ``states``: how many earlier windows the longest of their words is compared with.
    """

    def __init__(
        self,
        model: ModelRuntime,
        label_map: LabelMap,
        prototypes: Mapping[str, Prototype],
        known: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._model = model
        self._mask = label_map.listening_mask
        self.labels = len(label_map.slots)
        self._statistics = model.manifest.embedding_statistics if prototypes or known else None
        names = dict(enumerate(label_map.names))
        found = {slot: prototypes[name] for slot, name in names.items() if name in prototypes}
        near = {slot: one.rows.astype(np.float64) for slot, one in found.items()}
        self._near = near  # of each, [1 + parts, takes, numbers]
        self._before = {slot: one.before.astype(np.float64) for slot, one in found.items() if len(one.before)}
        self.states = max(map(len, self._before.values()), default=0)
        # A newer front end may know other sounds than the one that the device last learned by.
        knows = Known() if self._statistics is None else self._statistics.known
        self._known_slots = [slot for slot, name in names.items() if known.get(name) in knows.names]
        self._known_words = {slot for slot in self._known_slots if known[names[slot]] in knows.words}
        self._sounds = tuple(known[names[slot]] for slot in self._known_slots)
        of_word = _OF_WORD if knows.words else _OF_ANY_WORD
        self._worth = {slot: self._worth_of(slot, rows, of_word) for slot, rows in near.items()}

    def _directions(self, earlier: Floats) -> Doubles:
        assert self._statistics is not None
        found = self._statistics.directions(earlier.reshape(-1, earlier.shape[-1]))
        return found.reshape(*earlier.shape[:-1], -1)

    def _worth_of(self, slot: int, rows: Doubles, of_word: _Worth) -> _Worth:
        if slot in self._known_slots:
            return _OF_KNOWN_WORD if slot in self._known_words else _OF_KNOWN
        split = 0 if self._statistics is None else self._statistics.split
        of_sound = not rows[..., :split].any() if split else self._model.manifest.feature_settings.hears_sounds
        return _OF_SOUND if of_sound else of_word

    def __call__(self, features: Floats, earlier: Floats | None = None) -> Floats:
        """Return the scores, float32 [windows, labels], 0..1, of features, float32 [windows, frames, numbers].

        ``earlier``: features of the windows of half a second ago, of a second, and so on, float32 [states, windows,
        frames, numbers], NaN where there was none; None: there are none. Such a window is scored without them.
        """
        scores = self._model.predict(self._model.normalise(features), self._mask)[:, : self.labels]
        if self._statistics is None or not len(features):
            return scores
        found = logits(scores)
        if self._near:
            directions = self._statistics.directions(features[:, 0])
            ago = None if earlier is None or not self._before else self._directions(earlier[:, :, 0])
            for slot, rows in self._near.items():
                head, worth = found[:, slot], self._worth[slot]
                near = worth.near if rows.shape[1] >= _MANY else 1
                cosines = _cosines(directions, rows, near)
                if ago is not None and slot in self._before:
                    cosines = _in_order(cosines, ago, self._before[slot])
                found[:, slot] = np.where(head < 0, worth.no, worth.yes) * head + worth.cosine * (cosines - NEUTRAL)
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


def _in_order(cosines: Doubles, ago: Doubles, before: Doubles) -> Doubles:
    """Return cosines of windows, float64 [windows], with what earlier ones have of what comes before.

    ``ago``: directions of these, float64 [states, windows, numbers]. A mean, and less the more the least of them lacks.
    """
    shares = np.linalg.norm(before, axis=1)
    found, least = (1 - shares.sum()) * cosines, cosines
    for share, directions, state in zip(shares, ago, before, strict=False):
        near = directions @ state / share
        near = np.where(np.isfinite(near), near, cosines)
        found, least = found + share * near, np.minimum(least, near)
    return np.asarray(found - _WEAKEST * weight_of_order(before) * (found - least))


def _probabilities(found: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-np.clip(found, -LARGEST, LARGEST))))
