"""Thresholds for a promised rate of false accepts, by the tail of what sounds that are no label's score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from edge_client.config.sections import THRESHOLD, DetectorConfig
from fleet_protocol.numbers.arrays import Doubles, Floats

# Float32 probabilities say no more.
LARGEST = 15.0
# A label that scores less than what is no label is never heard, however few false accepts it would make.
LOWEST = 0.0
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


def threshold_of(
    label: str, config: DetectorConfig, tails: Mapping[str, Tail], chosen: Mapping[str, float] = MappingProxyType({})
) -> float:
    """Return a label's threshold, above 0 to 1: as ``chosen``, as configured, for the promised rate, or a fixed one."""
    for owners in (chosen, config.thresholds):
        if label in owners:
            return owners[label]
    if config.threshold is not None:
        return config.threshold
    return tails[label].threshold(config.false_accepts_per_hour) if label in tails else THRESHOLD


def logits(scores: Floats) -> Doubles:
    """Return the logits of scores, 0..1, as float64, from -15 to 15."""
    exact = scores.astype(np.float64)
    with np.errstate(divide="ignore"):
        found: Doubles = np.log(exact) - np.log1p(-exact)
    return np.clip(found, -LARGEST, LARGEST)


def probability(logit: float) -> float:
    """Return the score of a logit, 0.5 to 1: a threshold is never lower."""
    return 1 / (1 + math.exp(-min(max(logit, LOWEST), LARGEST)))
