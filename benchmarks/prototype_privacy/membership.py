"""Membership: does the attacker tell from a mean whether a clip, or a speaker, is in it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.prototype_privacy.attacker import Attacker, closeness, found_at, log_likelihood_ratios
from benchmarks.prototype_privacy.corpus import WORDS, Corpus
from edge_client.learning.prototype_noise import private_mean, sensitivity
from fleet_protocol.arrays import Doubles, Ints

CLIP, SAME_WORD, OTHER_WORDS = "the clip", "other clips of the word", "clips of other words"
_CLIPS_KNOWN, _WORDS_KNOWN = 5, 4
_FALSE_SHARE = 0.01


@dataclass(frozen=True)
class Case:
    """A mean, and what the attacker has of a person."""

    known: str  # what the attacker compares the mean with
    speakers: int  # people in the mean
    takes: int  # clips of each
    stranger: bool = True  # whether those outside are clips of other people; else other clips of the same people

    @property
    def spare(self) -> int:
        """Clips that a person needs besides those in the mean."""
        if self.known == SAME_WORD:
            return _CLIPS_KNOWN - self.takes
        return int(self.known == CLIP and not self.stranger)


CASES = (
    *(Case(CLIP, 1, takes, stranger=False) for takes in (1, 2, 4)),
    *(Case(CLIP, speakers, 4, stranger=False) for speakers in (5, 10)),
    *(Case(CLIP, speakers, 1) for speakers in (1, 2, 5, 10, 20, 40)),
    *(Case(SAME_WORD, 1, takes) for takes in (1, 2, 4)),
    *(Case(SAME_WORD, speakers, 1) for speakers in (5, 10, 20, 40)),
    *(Case(OTHER_WORDS, 1, takes) for takes in (1, 2, 4)),
    *(Case(OTHER_WORDS, speakers, 1) for speakers in (5, 20)),
)


class Sender:
    """Sends means as a device does, and compares them as an attacker does who knows the settings of the noise."""

    def __init__(self, corpus: Corpus, clip_norm: float, noise: float) -> None:
        """Learn from the public clips, clipped as the device clips its own."""
        self.corpus, self.clip_norm, self.noise = corpus, clip_norm, noise
        self.z = corpus.whitened(corpus.embeddings, clip_norm if noise else None)
        public = ~corpus.victims
        self.attacker = Attacker.learn(self.z[public], corpus.words[public], corpus.speakers[public])
        self.clips = corpus.victims_clips()

    def sent(self, rows: Ints, rng: np.random.Generator) -> Doubles:
        """Return what the mean of clips of one word exceeds the word's mean by, as the attacker sees it, [numbers]."""
        corpus = self.corpus
        mean = private_mean(corpus.embeddings[rows], corpus.statistics, self.clip_norm, self.noise, rng)
        return np.asarray(corpus.whitened(mean[None])[0] - self.attacker.means[str(corpus.words[rows[0]])])

    def residual(self, rows: Ints) -> Doubles:
        """Return what clips exceed the means of their words by, on average, as the attacker computes it, [numbers]."""
        means = np.stack([self.attacker.means[str(word)] for word in self.corpus.words[rows]])
        return np.asarray((self.z[rows] - means).mean(axis=0))

    def variance(self, clips: int) -> Doubles:
        """Return the covariance of the noise of a mean of so many clips."""
        scale = self.noise * sensitivity(self.clip_norm, clips)
        return np.asarray(scale**2 * np.eye(self.z.shape[1]))


def measure(sender: Sender, case: Case, trials: int, seeds: range) -> dict[str, Any]:
    """Attack ``trials`` means for each seed; return how well the attacker tells.

    ``auc`` is the area under the curve of the likelihood ratio, ``auc_spread`` its deviation over the seeds,
    ``auc_distance`` the area of the whitened distance, and ``found`` the share of those inside that the likelihood
    ratio finds at 1 % of false alarms.
    """
    attacked = [_attack(sender, case, trials, seed) for seed in seeds]
    ratios, distances = (np.concatenate([one[place] for one in attacked]) for place in (0, 1))
    inside = np.arange(2 * trials) < trials
    every = np.tile(inside, len(seeds))
    areas = [roc_auc_score(inside, one[0]) for one in attacked]
    return {
        "known": case.known,
        "outside": "others" if case.stranger else "same people",
        "speakers": case.speakers,
        "clips": case.speakers * case.takes,
        "noise": sender.noise,
        "auc": round(float(np.mean(areas)), 3),
        "auc_spread": round(float(np.std(areas)), 3),
        "auc_distance": round(float(roc_auc_score(every, distances)), 3),
        "found": round(found_at(ratios, every, _FALSE_SHARE), 3),
    }


def _attack(sender: Sender, case: Case, trials: int, seed: int) -> tuple[Doubles, Doubles]:
    """Return ratios and closeness, [2 trials]: first of those inside, then of those outside."""
    rng = np.random.default_rng([seed, CASES.index(case)])
    means, inside, outside = [], [], []
    for _ in range(trials):
        rows, member, other = _draw(sender, case, rng)
        means.append(sender.sent(rows, rng))
        inside.append(sender.residual(member))
        outside.append(sender.residual(other))
    sent, compared = np.stack(means * 2), np.stack(inside + outside)
    know, none = sender.attacker, np.zeros_like(sender.attacker.clip)
    of_mean = know.of_mean(case.speakers, case.takes)
    apart = none if case.stranger else know.word / case.speakers
    if case.known == CLIP:
        together, of_known = of_mean, know.of_mean()
    elif case.known == SAME_WORD:
        together, of_known = know.word / case.speakers, know.of_mean(clips=case.spare)
    else:
        together, of_known = know.voice / case.speakers, know.of_mean(words=_WORDS_KNOWN)
    noisy = of_mean + sender.variance(case.speakers * case.takes)
    return log_likelihood_ratios(sent, compared, (noisy, of_known), together, apart), closeness(sent, compared)


def _draw(sender: Sender, case: Case, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Draw the rows of a mean, and the attacker's rows of somebody inside and of somebody outside."""
    word = str(rng.choice(WORDS))
    people = sender.clips[word]
    able = [who for who, rows in people.items() if len(rows) >= case.takes + case.spare]
    if case.known == OTHER_WORDS:
        able = [who for who in able if sum(who in of_word for of_word in sender.clips.values()) > _WORDS_KNOWN]
    first, other = rng.choice(able, 2, replace=False)
    rest = [who for who, rows in people.items() if len(rows) >= case.takes and who not in (first, other)]
    members = [first, *rng.choice(rest, case.speakers - 1, replace=False)]
    drawn = [rng.permutation(people[who]) for who in members]
    rows = np.concatenate([part[: case.takes] for part in drawn])
    if case.known == OTHER_WORDS:
        return rows, _others(sender, word, first, rng), _others(sender, word, other, rng)
    outsider = rng.permutation(people[other])
    if case.known == SAME_WORD:
        return rows, drawn[0][case.takes :][: case.spare], outsider[: case.spare]
    return rows, drawn[0][:1], outsider[:1] if case.stranger else drawn[0][case.takes :][:1]


def _others(sender: Sender, word: str, who: str, rng: np.random.Generator) -> Ints:
    """Draw one clip of each of four other words."""
    spoken = [other for other in WORDS if other != word and who in sender.clips[other]]
    chosen = rng.choice(spoken, _WORDS_KNOWN, replace=False)
    return np.array([rng.choice(sender.clips[str(other)][who]) for other in chosen])
