"""Liars in private rounds, in which the server judges groups: `python -m benchmarks.liars --private`.

A hundred devices have four of ten words each, of Speech Commands' test set on the front end `words`, by four takes.
In each round devices are dealt into groups, and sums of groups judged and combined as a server does; devices in
quarantine stay away. Nothing is encrypted here: what a server sees of sums is the same.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.group_screen import MOST_OF_GROUPS, is_undecided, ratios, stand_out
from aggregator_server.aggregation.prototype_mean import combine
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.fleet.reputation import suspicion_after
from aggregator_server.limits import SUSPICION_IN_GROUPS
from aggregator_server.rounds.private.dealing import deal
from benchmarks.command import recordings, said
from edge_client.features.front_end import open_front_end
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles, Ints
from fleet_protocol.secure_sums.layouts import RANGE
from model_export.front_ends import find_front_end
from model_export.pretraining.corpus import read_features
from model_export.pretraining.evaluation import KEYWORDS

DEVICES, KNOWN, TAKES, WEIGHT, ROUNDS, PUBLIC = 100, 4, 4, 3.0, 30, 12
_SETTINGS: dict[str, Value] = {"centre": "geometric_median", "vote_cap": float("inf")}

Means = Doubles  # float64 [classes, numbers]; NaN: a device has no clips of a class


def _fill(means: Means, rng: np.random.Generator) -> Means:
    return np.asarray(np.full_like(means, RANGE * 0.9) * rng.choice([-1.0, 1.0], means.shape[1]))


def _one_class(means: Means) -> Means:
    flipped = means.copy()
    first = np.flatnonzero(~np.isnan(means[:, 0]))[0]
    flipped[first] *= -1
    return flipped


ATTACKS: dict[str, Callable[[Means, int, np.random.Generator], Means]] = {
    "sign_flip": lambda means, _round, _rng: -means,
    "scaling": lambda means, _round, _rng: np.clip(10 * means, -RANGE, RANGE),
    "noise": lambda means, _round, rng: rng.normal(size=means.shape) * np.sqrt(np.nanmean(means**2)),
    "fill": lambda means, _round, rng: _fill(means, rng),
    "label_flip": lambda means, _round, _rng: means[::-1],
    "one_class": lambda means, _round, _rng: _one_class(means),
    "weak": lambda means, _round, _rng: 0.3 * means,
    "late": lambda means, number, _rng: means if number < ROUNDS // 2 else -means,
}


@dataclass(frozen=True)
class Corpus:
    """Embeddings, float64 [clips, numbers], of words by their columns; ``space`` is that of the public set."""

    embeddings: Doubles
    labels: Ints
    space: PublicEmbedding

    @classmethod
    def read(cls) -> Corpus:
        """Embed the test set; the first clips of each word are the public set."""
        settings = find_front_end("words", "float32").settings
        features, words, _ = read_features(recordings("gsc_v2_test"), settings, open_front_end(settings))
        chosen = np.isin(words, KEYWORDS)
        labels = np.array([KEYWORDS.index(str(word)) for word in words[chosen]])
        features = features[chosen]
        public = np.concatenate([np.flatnonzero(labels == column)[:PUBLIC] for column in range(len(KEYWORDS))])
        infos = tuple(ClassInfo(word, word) for word in KEYWORDS)
        shared = PublicSet(settings, infos, features[public], labels[public], np.zeros(len(public), np.bool_))
        rest = np.setdiff1d(np.arange(len(labels)), public)
        rows = features.reshape(len(features), -1).astype(np.float64)[rest]
        return cls(rows, labels[rest], PublicEmbedding(shared))

    def devices(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return the devices' means, float64 [devices, classes, numbers], and the clips that nobody has."""
        means = np.full((DEVICES, len(KEYWORDS), self.embeddings.shape[1]), np.nan)
        of_word = [rng.permutation(np.flatnonzero(self.labels == column)) for column in range(len(KEYWORDS))]
        halves = [rows[: len(rows) // 2] for rows in of_word]  # the other half is heard
        for device in range(DEVICES):
            for column in rng.permutation(len(KEYWORDS))[:KNOWN]:
                taken = rng.choice(halves[column], TAKES, replace=False)
                means[device, column] = self.embeddings[taken].mean(axis=0)
        return means, np.setdiff1d(np.arange(len(self.labels)), np.concatenate(halves))

    def right(self, found: Means, clips: NDArray[np.intp]) -> float:
        """Return how many per cent of clips are nearest to their word's prototype."""
        whitened = self.embeddings[clips] @ self.space.whitening
        distances = np.linalg.norm(whitened[:, None] - (found @ self.space.whitening)[None], axis=2)
        return float(100 * (np.nanargmin(distances, axis=1) == self.labels[clips]).mean())


def play(corpus: Corpus, share: float, size: int, attack: str, seed: int) -> dict[str, float]:
    """Play all rounds of a fleet; return what the liars took, and who was found."""
    rng = np.random.default_rng([seed, size])
    draw = random.Random(f"{seed} {size}")  # noqa: S311  (nobody here wants to foresee it)
    means, clips = corpus.devices(np.random.default_rng([seed, 1]))
    liars = set(range(round(share * DEVICES)))
    suspicion, quarantined, lost = [0] * DEVICES, dict[int, int](), list[float]()
    known = 0.0  # how much of the clips the fleet's prototypes name rightly: none before the first result
    for number in range(ROUNDS):
        present = [device for device in range(DEVICES) if device not in quarantined]
        sent = means.copy()
        for device in liars:
            sent[device] = ATTACKS[attack](means[device], number, rng)
        groups = [[int(one) for one in group] for group in deal([str(device) for device in present], size, draw)]
        found, out = _round(corpus.space, sent, groups)
        honest = [[one for one in group if one not in liars] for group in groups]
        alone, _ = _round(corpus.space, means, [group for group in honest if group])
        known = known if found is None else corpus.right(found, clips)
        lost.append((0.0 if alone is None else corpus.right(alone, clips)) - known)
        for group, is_out in zip(groups, out, strict=True) if out is not None else ():
            for device in group:
                suspicion[device] = suspicion_after(suspicion[device], {"group": 1} if is_out else None)
                if suspicion[device] >= SUSPICION_IN_GROUPS:
                    quarantined[device] = number + 1
    caught = [quarantined[device] for device in sorted(liars) if device in quarantined]
    return {
        "points lost, first round": lost[0],
        "points lost, mean": float(np.mean(lost)),
        "points lost, last round": lost[-1],
        "liars found": len(caught),
        "round of the last found": max(caught, default=0),
        "honest in quarantine": len(quarantined) - len(caught),
        "honest suspected": sum(suspicion[one] > 0 for one in range(DEVICES) if one not in liars),
    }


def _round(
    space: PublicEmbedding, sent: NDArray[np.float64], groups: list[list[int]]
) -> tuple[Means | None, NDArray[np.bool_] | None]:
    """Return the fleet's prototypes of a round, and which groups were dropped.

    None: no group has a sum that can be; and too many were dropped to suspect anybody.
    """
    has = np.array([(~np.isnan(sent[group][..., 0])).sum(axis=0) for group in groups])  # [groups, classes]
    sums = np.array([np.nansum(sent[group], axis=0) for group in groups])
    with np.errstate(invalid="ignore"):
        of_groups = sums / has[..., None]
    impossible = np.array([not space.holds(means[some > 0]) for means, some in zip(of_groups, has, strict=True)])
    has[impossible] = 0
    if impossible.all():
        return None, None
    distances = np.full(has.shape, np.nan)
    for column in range(has.shape[1]):
        some = has[:, column] > 0
        points, weights = of_groups[some, column], WEIGHT * has[some, column]
        centre = combine(points, weights, space.whitening, _SETTINGS)
        distances[some, column] = np.sqrt(weights) * np.linalg.norm((points - centre) @ space.whitening, axis=1)
    compared = ratios(distances)
    out = np.zeros(len(has), np.bool_)
    out[~impossible] = stand_out(compared[~impossible])
    found = np.full(sums.shape[1:], np.nan)
    for column in range(has.shape[1]):
        some = (has[:, column] > 0) & ~out
        if some.any():
            found[column] = combine(of_groups[some, column], WEIGHT * has[some, column], space.whitening, _SETTINGS)
    is_open = is_undecided(compared[~impossible]) or (out | impossible).mean() > MOST_OF_GROUPS
    return found, None if is_open else out | impossible


def work(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each share of liars, attack and size of groups, means over seeds; return them."""
    corpus, rows = Corpus.read(), []
    for share in (0.1, 0.2):
        for attack in ATTACKS:
            for size in (4, 8, 16):
                fleets = [play(corpus, share, size, attack, seed) for seed in options.seeds]
                figures = {name: round(float(np.mean([one[name] for one in fleets])), 1) for name in fleets[0]}
                rows.append(said({"liars %": round(100 * share), "attack": attack, "group": size, **figures}))
    return rows
