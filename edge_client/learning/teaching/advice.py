"""What would help a label that was just taught: more takes, another person, another name, another model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.clips.folders import SOUND, WORD
from edge_client.detection.longer_words import Longer
from edge_client.learning.teaching.heard import Embeddings
from edge_client.learning.teaching.material import SAME_SOUND
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import JointStatistics

# Takes of a word are by one person where they scatter less than this share of what clips of the least varied word of
# the pretraining do.
_ONE_PERSON = 0.65
_FEW_TAKES = 5
# How much nearer takes are to what is none of a front end's sounds than to the nearest of these, as whitened cosines,
# where they fit the other kind.
_OTHER_KIND = 0.1
# What two labels share, and what an owner is told of it.
ALL, END, BEGINNING = "all", "end", "beginning"
_SHARED = {
    ALL: "{one!r} and {other!r} sound the same: if they are one sound, give both one name",
    END: "{one!r} and {other!r} end alike: the device tells them apart by how they begin",
    BEGINNING: "{one!r} and {other!r} begin alike: the device tells them apart by how they end",
}
_LONGER = "{other!r} begins with {one!r}: the device waits {s:g} s for the rest before it tells of {one!r}"
# Whitened cosines from which sounds are near one another, and how many of the nearest are named.
_NEAR, _NAMED = 0.5, 3


@dataclass(frozen=True)
class Advice:
    """What a label was taught with, and lines of what would help it."""

    label: str
    takes: int
    lines: tuple[str, ...]
    kind: str = ""  # "word" or "sound", where the front end hears both


def advice_on(
    heard: Embeddings, statistics: EmbeddingStatistics, kinds: Mapping[str, str], longer: Longer
) -> tuple[Advice, ...]:
    """Return what would help every label that has takes; ``kinds`` of labels: WORD or SOUND."""
    found, shared, of_one = [], _shared_parts(heard, statistics), _spread_of_one_person(statistics)
    hears_both = isinstance(statistics, JointStatistics)
    for label, takes in heard.takes.items():
        parts = {other: shared[label, other] for other in sorted(heard.takes) if other != label}
        lines = _lines(label, kinds[label], heard, statistics, parts, of_one)
        lines += tuple(_LONGER.format(one=label, other=other, s=s) for other, s in longer.get(label, {}).items())
        found.append(Advice(label, len(takes), lines, kinds[label] if hears_both else ""))
    return tuple(found)


def _lines(
    label: str,
    kind: str,
    heard: Embeddings,
    statistics: EmbeddingStatistics,
    parts: Mapping[str, str],
    of_one_person: float,
) -> tuple[str, ...]:
    """Return what would help a label. What many people say differs; one doorbell always sounds alike."""
    takes, found = heard.takes[label][:, 0], []
    if fit_the_other_kind(takes, statistics):
        found.append(_of_the_other_kind(label, sounds=kind == SOUND))
    word = kind == WORD and (isinstance(statistics, JointStatistics) or _nearer_to_nothing(takes, statistics) < 0.0)
    found += [_SHARED[part].format(one=label, other=other) for other, part in parts.items() if part]
    if len(takes) < _FEW_TAKES:
        found.append(f"record more takes of {label!r}: {len(takes)} are few")
    elif word and _takes_spread(takes, statistics) < of_one_person:
        found.append(f"the takes of {label!r} are alike, as if by one person: record five more, by another person")
    if near := [name for name in nearest(label, heard, statistics, words=word) if not parts.get(name)]:
        names = " and ".join(map(repr, near))
        found.append(
            f"{label!r} sounds much like {names}: when the device hears {label!r} and it was {_one_of(near)}, "
            f"tell it that this was not {label!r}"
        )
    return tuple(found)


def _one_of(names: list[str]) -> str:
    return repr(names[0]) if len(names) == 1 else "one of these"


def fit_the_other_kind(takes: Floats, statistics: EmbeddingStatistics) -> bool:
    """Tell whether takes, float32 [takes, numbers], are no words on a front end for words, or words on one for sounds.

    On a front end that hears both they never are.
    """
    return not isinstance(statistics, JointStatistics) and _nearer_to_nothing(takes, statistics) > _OTHER_KIND


def _nearer_to_nothing(takes: Floats, statistics: EmbeddingStatistics) -> float:
    """Return how much nearer takes are to what is no sound of the pretraining than to these, as whitened cosines."""
    if not len(statistics.noise):
        return -1.0
    directions = statistics.whitened(takes)
    nothing, known = (directions @ statistics.whitened(of).T for of in (statistics.noise, statistics.means))
    return float(np.median(nothing.max(axis=1) - known.max(axis=1)))


def _spread_of_one_person(statistics: EmbeddingStatistics) -> float:
    """Return below which :func:`_takes_spread` takes of a word are as alike as those of one person alone."""
    of_many = [spread for clips in statistics.samples if (spread := _takes_spread(clips, statistics)) > 0.0]
    return _ONE_PERSON * min(of_many, default=0.0)


def _of_the_other_kind(label: str, *, sounds: bool) -> str:
    heard, bundle = ("speech", "words") if sounds else ("a sound and not a word", "sounds_2s")
    made_for = "everyday sounds" if sounds else "words"
    return (
        f"the takes of {label!r} are like {heard}, and this model was made for {made_for}: the bundle {bundle} hears "
        "these better, words_and_sounds hears both"
    )


def _takes_spread(takes: Floats, statistics: EmbeddingStatistics) -> float:
    """Return the variance of takes, float32 [takes, numbers], as a share of that within a word; 0 for a single one."""
    if len(takes) < 2:
        return 0.0
    z = (takes - takes.mean(axis=0)) @ statistics.whitening
    return float(np.square(z).sum() / ((len(takes) - 1) * takes.shape[1]))


def _shared_parts(heard: Embeddings, statistics: EmbeddingStatistics) -> dict[tuple[str, str], str]:
    """Return by two labels what they share, as near as takes of one sound are: "" or ``ALL``, ``END``, ``BEGINNING``.

    The newest window of a long word holds its end, the earlier ones what comes before it.
    """

    def directions(rows: Floats) -> Doubles:
        return statistics.whitened(rows.reshape(len(rows), -1, rows.shape[-1]).mean(axis=1))

    ends = {label: directions(takes[None, :, 0])[0] for label, takes in heard.takes.items()}
    before = {label: directions(heard.before[label].rows) for label in ends if label in heard.before}
    found = {}
    for one, other in itertools.permutations(ends, 2):
        end, long = bool(ends[one] @ ends[other] >= SAME_SOUND), [before[of] for of in (one, other) if of in before]
        begins = len(long) == 2 and all(first @ second >= SAME_SOUND for first, second in zip(*long, strict=False))
        found[one, other] = (ALL if begins or not long else END) if end else (BEGINNING if begins else "")
    return found


def nearest(label: str, heard: Embeddings, statistics: EmbeddingStatistics, *, words: bool) -> tuple[str, ...]:
    """Return the labels, and with ``words`` those of the pretraining, that a label resembles, the most similar first.

    What the pretraining calls its sounds (``synthetic bark``), and some words (``beijing_4``), means nothing to people.
    """
    means = {other: takes[:, 0].mean(axis=0) for other, takes in heard.takes.items() if other != label}
    known = zip(statistics.words, statistics.means, strict=True) if words else ()
    means |= {word: mean for word, mean in known if word.isalpha() and word not in means}
    means.pop(label, None)
    if not means:
        return ()
    own = statistics.whitened(heard.takes[label][:, 0].mean(axis=0, keepdims=True))[0]
    cosines = statistics.whitened(np.stack(list(means.values()))) @ own
    names = list(means)
    return tuple(names[index] for index in np.argsort(-cosines)[:_NAMED] if cosines[index] >= _NEAR)
