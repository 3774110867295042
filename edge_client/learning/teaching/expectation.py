"""How well a label that was just taught will be recognised, what it will be confused with, and what would help.

Every figure is of single windows. They come from the head itself, on draws that were calibrated on speakers on whom
nothing is reported (docs/teaching.md, "What to expect"): good on the average over labels, rough for a single one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from edge_client.learning.teaching.head_material import SAME_SOUND, Heard
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from fleet_protocol.joint_statistics import JointStatistics
from fleet_protocol.labels import LabelMap

# Draws for one figure, and clips of each made-up word.
_DRAWS, _CLIPS = 400, 4
# Variance of other people's clips about the takes' mean, as a multiple of that within a word: this much where takes
# are as alike as one person's, less where they differ more, and at least so much. False accepts of real words are so
# many times those of made-up words.
_WIDEST, _ALIKE, _SLOPE, _NARROWEST, _REAL_WORDS = 9.0, 0.3, 18.0, 2.5, 1.7
# Takes that scatter less than this share of a word's variance are as if by one person.
_ONE_PERSON = 0.4
_FEW_TAKES, _MANY_FALSE_ACCEPTS = 5, 8.0
# How much nearer takes are to what is none of a front end's sounds than to the nearest of these, as whitened cosines,
# where they fit the other kind. By five takes each, `words` warns so of all car horns, shots, sirens and drills, of six
# of ten dogs, of no Arabic word and of one of twelve Bengali digits; `sounds_2s` of all these words, of no such sound.
_OTHER_KIND = 0.1
# Whitened cosines from which sounds are near one another, and how many of the nearest are named.
_NEAR, _NAMED = 0.5, 3


@dataclass(frozen=True)
class Expectation:
    """What to expect of one label, in per cent of windows.

    Attributes:
        spread: Scatter of the takes, as a share of the variance within a word; 0 for a single take.
        misses_of_others: Share that is missed of the same sound by other people, or from other sources.
        false_accepts: Share of words that nobody taught which are taken for it.
        kind: "word" or "sound", where the front end hears both.
    """

    label: str
    takes: int
    spread: float
    misses_of_others: float
    false_accepts: float
    near: tuple[str, ...]
    advice: tuple[str, ...]
    kind: str = ""


def expectations(
    model: ModelRuntime,
    label_map: LabelMap,
    heard: Heard,
    statistics: EmbeddingStatistics,
    rng: np.random.Generator,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Expectation, ...]:
    """Return what to expect of every label that has takes; ``kinds`` are of labels on a front end that hears both."""
    made_up = model_scores(model, label_map, _made_up_words(statistics, rng)).argmax(axis=1)
    found = (
        _expected(label, model, label_map, heard, statistics, float((made_up == label_map.slot_of(label)).mean()), rng)
        for label in heard.takes
    )
    return tuple(dataclasses.replace(one, kind=kinds.get(one.label, "")) for one in found)


def model_scores(model: ModelRuntime, label_map: LabelMap, embeddings: Floats) -> Floats:
    """Return the scores of embeddings, float32 [rows, numbers] -> [rows, capacity]."""
    return model.predict(model.normalise(embeddings[:, None]), label_map.listening_mask)


def _expected(
    label: str,
    model: ModelRuntime,
    label_map: LabelMap,
    heard: Heard,
    statistics: EmbeddingStatistics,
    made_up: float,
    rng: np.random.Generator,
) -> Expectation:
    takes, slot = heard.takes[label][:, 0], label_map.slot_of(label)
    mean, spread = takes.mean(axis=0), takes_spread(takes, statistics)
    widening = float(np.clip(_WIDEST - _SLOPE * (spread - _ALIKE), _NARROWEST, _WIDEST))
    drawn = mean + np.sqrt(widening) * statistics.draw(np.zeros_like(mean), _DRAWS, rng)
    missed = model_scores(model, label_map, drawn.astype(np.float32)).argmax(axis=1) != slot
    near, same = nearest(label, heard, statistics), same_sound(label, heard, statistics)
    false_accepts = min(100.0, 100 * _REAL_WORDS * made_up)
    advice = _advice(label, len(takes), spread, near, same, false_accepts)
    if fit_the_other_kind(takes, statistics):
        advice = (_of_the_other_kind(label, sounds=model.manifest.feature_settings.hears_sounds), *advice)
    return Expectation(label, len(takes), spread, 100 * float(missed.mean()), false_accepts, near, advice)


def fit_the_other_kind(takes: Floats, statistics: EmbeddingStatistics) -> bool:
    """Tell whether takes, float32 [takes, numbers], are no words on a front end for words, or words on one for sounds.

    On a front end that hears both they never are.
    """
    if isinstance(statistics, JointStatistics) or not len(statistics.noise):
        return False
    directions = statistics.whitened(takes)
    nothing, known = (directions @ statistics.whitened(of).T for of in (statistics.noise, statistics.means))
    return bool(np.median(nothing.max(axis=1) - known.max(axis=1)) > _OTHER_KIND)


def _of_the_other_kind(label: str, *, sounds: bool) -> str:
    heard, bundle = ("speech", "words") if sounds else ("a sound and not a word", "sounds_2s")
    made_for = "everyday sounds" if sounds else "words"
    return (
        f"the takes of {label!r} are like {heard}, and this model was made for {made_for}: the bundle {bundle} hears "
        "these better, words_and_sounds hears both"
    )


def takes_spread(takes: Floats, statistics: EmbeddingStatistics) -> float:
    """Return the variance of takes, float32 [takes, numbers], as a share of that within a word; 0 for a single one."""
    if len(takes) < 2:
        return 0.0
    z = (takes - takes.mean(axis=0)) @ statistics.whitening
    return float(np.square(z).sum() / ((len(takes) - 1) * takes.shape[1]))


def same_sound(label: str, heard: Heard, statistics: EmbeddingStatistics) -> tuple[str, ...]:
    """Return the other labels whose takes are as near as those of one sound are, in alphabetical order."""

    def direction(name: str) -> Doubles:
        whitened: Doubles = statistics.whitened(heard.takes[name][:, 0].mean(axis=0, keepdims=True))
        return np.asarray(whitened[0])

    own = direction(label)
    return tuple(
        sorted(other for other in heard.takes if other != label and float(direction(other) @ own) >= SAME_SOUND)
    )


def nearest(label: str, heard: Heard, statistics: EmbeddingStatistics) -> tuple[str, ...]:
    """Return the labels, and words of the pretraining, that a label resembles, the most similar first."""
    means = {other: takes[:, 0].mean(axis=0) for other, takes in heard.takes.items() if other != label}
    means |= {word: mean for word, mean in zip(statistics.words, statistics.means, strict=True) if word not in means}
    means.pop(label, None)
    if not means:
        return ()
    own = statistics.whitened(heard.takes[label][:, 0].mean(axis=0, keepdims=True))[0]
    cosines = statistics.whitened(np.stack(list(means.values()))) @ own
    names = list(means)
    return tuple(names[index] for index in np.argsort(-cosines)[:_NAMED] if cosines[index] >= _NEAR)


def _made_up_words(statistics: EmbeddingStatistics, rng: np.random.Generator) -> Floats:
    """Return embeddings of words that do not exist, float32 [draws, numbers]: scattered as the known words are."""
    centre, numbers = statistics.means.mean(axis=0), statistics.means.shape[1]
    between = np.cov(statistics.means.T) + 1e-3 * np.eye(numbers)
    words = centre + rng.standard_normal((_DRAWS // _CLIPS, numbers)) @ np.linalg.cholesky(between).T
    return np.concatenate([statistics.draw(word, _CLIPS, rng) for word in words])


def _advice(
    label: str, takes: int, spread: float, near: Sequence[str], same: Sequence[str], false_accepts: float
) -> tuple[str, ...]:
    found = [f"{label!r} and {other!r} sound the same: if they are one sound, give both one name" for other in same]
    if takes < _FEW_TAKES:
        found.append(f"record more takes of {label!r}: {takes} are few")
    elif spread < _ONE_PERSON:
        found.append(f"the takes of {label!r} are alike, as if by one person: record five more, by another person")
    if others := [name for name in near if name not in same]:
        names = ", ".join(map(repr, others))
        found.append(f"{label!r} resembles {names}: where one is taken for it, say that this is not {label!r}")
    if false_accepts > _MANY_FALSE_ACCEPTS:
        found.append(
            f"many other words will be taken for {label!r}: choose a longer word, or say of more sounds that they are "
            f"not {label!r}"
        )
    return tuple(found)
