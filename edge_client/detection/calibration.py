"""Thresholds for a promised rate of false accepts, from the scores of sounds that are no label's.

The highest scores of such sounds fall off exponentially on the logit scale (the tail of a generalised Pareto
distribution with shape 0; Pickands 1975). The tail says how high a score must be to be reached once an hour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Doubles, Floats

# Share of the scores, the highest, that make the tail.
_TAIL = 0.05
# Looks at other sounds in an hour. The windows of a stream hold parts of words, in noise, and score higher than whole
# words do. Chosen on the tuning half of `benchmarks.listening`, which has six hundred other words an hour.
_LOOKS_PER_HOUR = 3000.0
# Float32 probabilities say no more.
_LARGEST = 15.0
# A label that scores less than what is no label is never heard, however few false accepts it would make.
_LOWEST = 0.0
_SMALLEST_SCALE = 0.25


@dataclass(frozen=True)
class Tail:
    """How often sounds that are not a label score high for it.

    Attributes:
        level: Logit of the score that they reach once an hour.
        scale: Logits by which the score rises where the rate falls by a factor of e.
    """

    level: float
    scale: float

    def threshold(self, per_hour: float) -> float:
        """Return the score that is reached so many times an hour, 0.5 to 1.

        Args:
            per_hour: false accepts of the label, above 0.
        """
        logit = self.level - self.scale * math.log(per_hour)
        return 1 / (1 + math.exp(-min(max(logit, _LOWEST), _LARGEST)))


def fit_tails(scores: Floats) -> list[Tail]:
    """Fit every label's tail.

    Args:
        scores: float32 [sounds, labels], 0..1, of sounds that are no label's: clips of other words, the room, noise.

    Returns:
        One for each label.
    """
    return [_fit(column) for column in _logits(scores).T]


def _fit(logits: Doubles) -> Tail:
    """Fit one label's tail by the mean excess over its beginning, which is the exponential's maximum likelihood."""
    begin = float(np.quantile(logits, 1 - _TAIL))
    scale = max(_SMALLEST_SCALE, float(np.mean(logits[logits >= begin])) - begin)
    return Tail(begin + scale * math.log(_LOOKS_PER_HOUR * _TAIL), scale)


def _logits(scores: Floats) -> Doubles:
    exact = scores.astype(np.float64)
    with np.errstate(divide="ignore"):
        logits: Doubles = np.log(exact) - np.log1p(-exact)
    return np.clip(logits, -_LARGEST, _LARGEST)
