"""Thresholds for a promised rate of false accepts, from the scores of sounds that are no label's.

The highest scores of such sounds fall off exponentially on the logit scale (the tail of a generalised Pareto
distribution with shape 0; Pickands 1975). The tail says how high a score must be to be reached once an hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.config.sections import THRESHOLD, DetectorConfig
from fleet_protocol.numbers.arrays import Doubles, Floats

# Share of the scores, the highest, that make the tail.
_TAIL = 0.05
# Windows of other sounds in an hour, and how much faster the highest averaged scores of a stream fall off than those of
# single sounds. The windows of a stream hold parts of words, in noise, and score higher than whole words do. Chosen on
# the tuning half of `benchmarks.listening`, which has six hundred other words an hour.
_LOOKS_PER_HOUR, _FASTER = 1500.0, 2.0
# Float32 probabilities say no more.
LARGEST = 15.0
# A label that scores less than what is no label is never heard, however few false accepts it would make.
LOWEST = 0.0
_SMALLEST_SCALE = 0.25
_LARGEST_EXPONENT = 700.0  # of a float64


@dataclass(frozen=True)
class Tail:
    """How often sounds that are not a label score high for it."""

    level: float  # logit of the score that they reach once an hour
    scale: float  # logits by which the score rises where the rate falls by a factor of e

    def threshold(self, per_hour: float) -> float:
        """Return the score, 0.5 to 1, at which the label has so many false accepts an hour, which are above 0."""
        return probability(self.logit(per_hour))

    def logit(self, per_hour: float) -> float:
        """Return the logit that other sounds reach so often an hour."""
        return self.level - self.scale * math.log(per_hour)

    def rate(self, logit: float) -> float:
        """Return how often an hour other sounds reach a logit."""
        return math.exp(min((self.level - logit) / self.scale, _LARGEST_EXPONENT))

    def at_least(self, least: Tail) -> Tail:
        """Return the tail with a level and a scale that are at least those of another one."""
        return Tail(max(self.level, least.level), max(self.scale, least.scale))


def threshold_of(label: str, config: DetectorConfig, tails: Mapping[str, Tail]) -> float:
    """Return a label's threshold, above 0 to 1: the owner's, or for the promised rate, or else a fixed one."""
    if label in config.thresholds:
        return config.thresholds[label]
    if config.threshold is not None:
        return config.threshold
    return tails[label].threshold(config.false_accepts_per_hour) if label in tails else THRESHOLD


def fit_tails(scores: Floats) -> list[Tail]:
    """Return every label's tail, of scores, float32 [sounds, labels], 0..1, of sounds that are no label's: clips of
    other words, the room, noise. The scale is the same for all labels.
    """
    found = logits(scores)
    begins = np.quantile(found, 1 - _TAIL, axis=0)
    # The mean excess over a tail's beginning is the exponential's maximum likelihood. One label's is a rough figure.
    excesses = [float(np.mean(column[column >= begin] - begin)) for column, begin in zip(found.T, begins, strict=True)]
    scale = max(_SMALLEST_SCALE, float(np.mean(excesses))) if excesses else _SMALLEST_SCALE
    rise = scale * math.log(_LOOKS_PER_HOUR * _TAIL)
    return [Tail(float(begin) + rise, scale / _FASTER) for begin in begins]


def logits(scores: Floats) -> Doubles:
    """Return the logits of scores, 0..1, as float64, from -15 to 15."""
    exact = scores.astype(np.float64)
    with np.errstate(divide="ignore"):
        found: Doubles = np.log(exact) - np.log1p(-exact)
    return np.clip(found, -LARGEST, LARGEST)


def probability(logit: float) -> float:
    """Return the score of a logit, 0.5 to 1: a threshold is never lower."""
    return 1 / (1 + math.exp(-min(max(logit, LOWEST), LARGEST)))
