"""Identification: whose voice is in a mean? The attacker has recordings of twenty people and picks the likeliest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.prototype_privacy.attacker import closeness, log_likelihood_ratios
from benchmarks.prototype_privacy.corpus import WORDS
from benchmarks.prototype_privacy.membership import Sender
from fleet_protocol.arrays import Doubles

CANDIDATES = 20
_TAKES = 4


@dataclass(frozen=True)
class Case:
    """What is sent of one speaker, and what the attacker has of everybody."""

    sent: int  # words of which means were sent, of four clips each
    known: int  # other words of which the attacker has the mean of four clips; 0: one other clip of the same word


CASES = (Case(1, 0), Case(1, 1), Case(1, 4), Case(4, 4))


def measure(sender: Sender, case: Case, seeds: range) -> dict[str, Any]:
    """Draw twenty people for each seed, and identify every one; return how often the attacker is ``right``, in %."""
    know = sender.attacker
    if case.known:
        together, of_known = know.voice, know.of_mean(clips=_TAKES, words=case.known)
    else:
        together, of_known = know.word, know.of_mean()
    noisy = know.of_mean(clips=_TAKES, words=case.sent) + sender.variance(_TAKES) / case.sent
    right = []
    for seed in seeds:
        sent, known = _draw(sender, case, np.random.default_rng([seed, case.sent, case.known]))
        pairs = np.repeat(sent, CANDIDATES, axis=0), np.tile(known, (CANDIDATES, 1))
        ratios = log_likelihood_ratios(*pairs, (noisy, of_known), together, np.zeros_like(together))
        tables = [scores.reshape(CANDIDATES, CANDIDATES) for scores in (ratios, closeness(*pairs))]
        right.append([(table.argmax(axis=1) == np.arange(CANDIDATES)).mean() for table in tables])
    shares = 100 * np.mean(right, axis=0)
    row = {"sent": case.sent, "known": case.known, "candidates": CANDIDATES, "noise": sender.noise}
    row |= {"right": round(float(shares[0]), 1), "right_by_distance": round(float(shares[1]), 1)}
    return row | {"decisions": CANDIDATES * len(seeds)}


def _draw(sender: Sender, case: Case, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Draw twenty people; return what their means and the attacker's exceed the words' by, [candidates, numbers]."""
    if case.known:
        needed = case.sent + case.known
        rich = {
            who: own
            for who in ({who for people in sender.clips.values() for who in people})
            if len(own := [word for word, people in sender.clips.items() if len(people.get(who, ())) >= _TAKES])
            >= needed
        }
        people = rng.choice(sorted(rich), CANDIDATES, replace=False)
        words = [[str(word) for word in rng.permutation(rich[who])] for who in people]
    else:
        able = {word: sorted(who for who, rows in sender.clips[word].items() if len(rows) > _TAKES) for word in WORDS}
        word = str(rng.choice([word for word, people in able.items() if len(people) >= CANDIDATES]))
        people = rng.choice(able[word], CANDIDATES, replace=False)
        words = [[word]] * CANDIDATES
    sent, known = [], []
    for who, spoken in zip(people, words, strict=True):
        drawn = {word: rng.permutation(sender.clips[word][who]) for word in spoken}
        sent.append(np.mean([sender.sent(drawn[word][:_TAKES], rng) for word in spoken[: case.sent]], axis=0))
        others = [drawn[word][:_TAKES] for word in spoken[case.sent :][: case.known]]
        known.append(sender.residual(np.concatenate(others) if others else drawn[spoken[0]][_TAKES:][:1]))
    return np.stack(sent), np.stack(known)
