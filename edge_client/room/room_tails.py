"""How often a label's score is reached in this room by what is not the label, and the thresholds that follow.

The tail from the words of the pretraining (edge_client/detection/thresholds.py) is what is believed of a room before
anything was heard in it. What was heard takes over in two steps. First, the room's own tail begins at the score that is
reached several times an hour here: so often that few hours tell it. That tail is then believed of the promised rate,
and what was heard at it takes over. In both steps the rate at a score is the mean of a gamma distribution, of which the
false accepts in the sample are the Poisson counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edge_client.detection.scores import Scorer, earlier_of
from edge_client.detection.thresholds import LARGEST, LOWEST, Tail, logits, probability
from edge_client.room.reservoir import HOUR_S, Layout, Sample, local_cell
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.labels import LabelMap

# False accepts an hour at which a room's tail begins, how many the pretraining's tail is worth there, and how much
# flatter the room's is: all chosen in the tuning rooms of `benchmarks.living`. A pretraining's tail that is worth hours
# instead weighs the more the worse it fits: there were 0.6 of the promised false accepts then, and three to five points
# more words were missed.
BEGIN_PER_HOUR, PRIOR_COUNTS, FLATTER = 6.0, 4.0, 1.2
# Hours after which a room without sounds like the label is believed to have half as many of them, then a third, ...
QUIET_HOURS = 0.5
# False accepts that the room's tail is worth at the promised rate.
ROOM_COUNTS = 16.0
# Hours heard since, after which what was heard counts half.
_HALF_LIFE = 24.0
# Detections an hour that are taken for the label itself, as a share of the promised rate, where the owner did not deny
# them. They are those that lie so many logits above the pretraining's threshold: of false accepts few do. More of them
# raise the threshold so far at most, so that a word that is often said is not lost.
LEFT_OUT, CLEARLY = 0.5, 2.0
_STEPS = 40


@dataclass(frozen=True)
class RoomTail(Tail):
    """A tail that what was heard in the room takes over from.

    Attributes:
        hours: Hours that were heard, the newer counting the more.
        logits: float64 [runs], highest first: logits that the label reached.
        counts: float64 [runs], for how many blocks each of them stands, in the same order.
        taken: bool [runs], whether it was detected then and not denied.
    """

    hours: float = 0.0
    logits: Doubles = field(default_factory=lambda: np.zeros(0))
    counts: Doubles = field(default_factory=lambda: np.zeros(0))
    taken: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def threshold(self, per_hour: float) -> float:
        """Return the score, 0.5 to 1, at which the label has so many false accepts an hour, which are above 0."""
        clear = self.logit(per_hour) + CLEARLY
        mine = np.where(self.taken & (self.logits >= clear), self.counts, 0.0)
        others = self.counts - mine
        here = self._here(others, max(per_hour, BEGIN_PER_HOUR))
        left_out = np.clip(LEFT_OUT * per_hour * self.hours - (np.cumsum(mine) - mine), 0.0, mine)
        # What was clearly detected may be the label itself: alone it raises the threshold to there at most.
        bounded = min(self._at(here, self.counts - left_out, per_hour), max(clear, LOWEST))
        return probability(max(bounded, self._at(here, others, per_hour)))

    def _here(self, counts: Doubles, per_hour: float) -> Tail:
        """Return the tail of this room, which begins where a rate is reached."""

        def rate(logit: float, heard: float) -> float:
            return (PRIOR_COUNTS + heard) / (PRIOR_COUNTS / self.rate(logit) + self.hours)

        begin = max(self._lowest(rate, counts, per_hour), self.logit(per_hour * (1.0 + self.hours / QUIET_HOURS)))
        scale = FLATTER * self.scale
        return Tail(begin + scale * math.log(per_hour), scale)

    def _at(self, here: Tail, counts: Doubles, per_hour: float) -> float:
        """Return the lowest logit that is reached at the promised rate, where ``here`` is what is believed before."""
        worth = ROOM_COUNTS / per_hour

        def rate(logit: float, heard: float) -> float:
            return (worth * here.rate(logit) + heard) / (worth + self.hours)

        return self._lowest(rate, counts, per_hour)

    def _lowest(self, rate: Callable[[float, float], float], counts: Doubles, per_hour: float) -> float:
        """Return the lowest logit at which the rate, of a logit and what was heard from there up, is that small."""
        reached = np.concatenate([[0.0], np.cumsum(counts)])
        low, high = -LARGEST, LARGEST
        for _ in range(_STEPS):
            middle = (low + high) / 2
            heard = float(reached[np.searchsorted(-self.logits, -middle, side="right")])
            low, high = (middle, high) if rate(middle, heard) > per_hour else (low, middle)
        return high


def room_tails(
    sample: Sample,
    layout: Layout,
    scorer: Scorer,
    label_map: LabelMap,
    tails: Mapping[str, Tail],
    denied: Collection[tuple[float, str]],
) -> dict[str, Tail]:
    """Return every label's tail for this room.

    ``layout``: of the sample; ``scorer`` scores windows for the labels of ``label_map``;
    ``denied``: times, s since 1970, and labels of detections that the owner said were wrong.
    """
    scores = run_scores(sample, layout, scorer)
    shares = _shares(sample)
    counts = np.array([shares.get(local_cell(moment), 0.0) for moment in sample.at_s]) / sample.chances()
    hours = sum(seconds / HOUR_S * shares[cell] for cell, seconds in sample.heard_s.items())
    found: dict[str, Tail] = {}
    for slot, label in enumerate(label_map.names):
        if label not in tails:
            continue
        own = np.zeros(len(counts), np.bool_)
        if label in sample.names:
            own = (sample.taken == sample.names.index(label)) & ~_is_denied(sample, label, denied)
        order, tail = np.argsort(-scores[:, slot], kind="stable"), tails[label]
        heard = scores[order, slot], counts[order], np.asarray(own[order])
        found[label] = RoomTail(tail.level, tail.scale, hours, *heard)
    return found


def _shares(sample: Sample) -> dict[tuple[int, int], float]:
    """Return by day and hour how much what was heard then counts, above 0 to 1: the newest hour nearly whole."""
    found, since = {}, 0.0
    for cell in sorted(sample.heard_s, reverse=True):
        hours = sample.heard_s[cell] / HOUR_S
        found[cell] = 2.0 ** (-(since + hours / 2) / _HALF_LIFE)
        since += hours
    return found


def _is_denied(sample: Sample, label: str, denied: Collection[tuple[float, str]]) -> NDArray[np.bool_]:
    """Return by run whether the owner said of a detection of a label in it that it was wrong, bool [runs]."""
    moments = np.array([moment for moment, name in denied if name == label])
    found: NDArray[np.bool_] = np.zeros(len(sample.at_s), np.bool_)
    for moment in moments:
        found |= np.abs(sample.at_s - moment) <= 5.0
    return found


def run_scores(sample: Sample, layout: Layout, scorer: Scorer) -> Doubles:
    """Return the highest logit that each label reached in each run as the best of all, float64 [runs, labels]."""
    runs, windows, numbers = sample.windows.shape
    scores: Floats = np.zeros((runs * windows, scorer.labels), np.float32)
    rows = sample.windows.astype(np.float32)
    earlier = earlier_of(rows, layout.before, scorer.states).reshape(scorer.states, runs * windows, numbers)
    rows = rows.reshape(-1, numbers)
    heard = np.flatnonzero(np.isfinite(rows).all(axis=1))
    if len(heard):
        scores[heard] = scorer(rows[heard][:, None], earlier[:, heard][:, :, None])
    # The first windows of a run are there for those behind them alone.
    first = min(layout.before, windows - 1)
    scores = scores.reshape(runs, windows, scorer.labels)[:, first:]
    windows -= first
    width = min(layout.averaged, windows)
    means = np.stack([scores[:, at : at + width].mean(axis=1) for at in range(windows - width + 1)], axis=1)
    best = means == means.max(axis=2, keepdims=True)
    return np.asarray(np.where(best, logits(means), -LARGEST).max(axis=1))
