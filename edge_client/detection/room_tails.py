"""How often a label's score is reached in this room by what is not the label, and the thresholds that follow.

The tail from the words of the pretraining (edge_client/learning/teaching/tails.py) is what is believed of a room before
anything was heard in it. What was heard takes over in two steps. First, the room's own tail begins at the score that is
reached several times an hour here: so often that few hours tell it. That tail is then believed of the promised rate,
and what was heard at it takes over. In both steps the rate at a score is the mean of a gamma distribution, of which the
false accepts that were counted are the Poisson counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_client.detection.thresholds import LARGEST, LOWEST, Tail, logits, probability
from fleet_protocol.numbers.arrays import Doubles, Floats

# False accepts an hour at which a room's tail begins, how many the pretraining's tail is worth there, and how much
# flatter the room's is (`benchmarks.living`). Were the pretraining's tail worth hours instead, it would weigh the more
# the worse it fits.
BEGIN_PER_HOUR, PRIOR_COUNTS, FLATTER = 6.0, 4.0, 1.2
# Hours after which a room without sounds like the label is believed to have half as many of them, then a third, ...
QUIET_HOURS = 0.5
# False accepts that the room's tail is worth at the promised rate.
_ROOM_COUNTS = 16.0
# Hours heard since, after which what was heard counts half.
_HALF_LIFE = 24.0
# Detections an hour that are taken for the label itself, as a share of the promised rate, where the owner did not deny
# them. They are those that lie so many logits above the pretraining's threshold: of false accepts few do. More of them
# raise the threshold so far at most, so that a word that is often said is not lost.
LEFT_OUT, CLEARLY = 0.5, 2.0
_STEPS = 40
# Length of a block, s. Two events of a label lie at least `refractory_s` apart, so a block has seldom more than one.
_BLOCK_S, _ROUNDING_S = 2.0, 1e-6


@dataclass(frozen=True)
class RoomTail(Tail):
    """A tail that what was heard in the room takes over from.

    Attributes:
        hours: Hours that were heard, the newer counting the more.
        logits: float64 [any], highest first: logits that the label reached.
        counts: float64 [any], how often it reached each of them, in the same order.
        taken: bool [any], whether it was detected then and not denied.
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
        worth = _ROOM_COUNTS / per_hour

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


# Rates are counted by how far a logit lies above the level of the pretraining's tail, in scales of it: so they stay
# true, nearly, when the label is taught anew. From and to where, and how fine.
_LOWEST_STEP, _HIGHEST_STEP, _STEPS_OF_SCALE = -8.0, 40.0, 8
_FORGOTTEN = 1e-3
_BINS = round((_HIGHEST_STEP - _LOWEST_STEP) * _STEPS_OF_SCALE)
# Detections of a label of which the owner may say that they were wrong, the newest, and how near in time that is, s.
_NEWEST, _SAME_S = 100, 5.0


@dataclass
class Reached:
    """How often the scores of one label were reached, as the best of all, in blocks of sound.

    Attributes:
        hours: Hours that were heard; in all figures the newer ones count the more.
        counts: float64 [2, bins], how often each score was reached: where the label was not detected, where it was.
        newest: Newest detections: time, s since 1970, bin, and for how much it counts.
    """

    hours: float = 0.0
    counts: Doubles = field(default_factory=lambda: np.zeros((2, _BINS)))
    newest: list[tuple[float, int, float]] = field(default_factory=list)

    def add(self, hours: float, steps: float, detected_at: float | None) -> None:
        """Take a block: its length, the highest score in it, -inf where there is none, and the detection, if any."""
        fading = 2.0 ** (-hours / _HALF_LIFE)
        self.hours = self.hours * fading + hours
        self.counts *= fading
        self.newest = [(at, place, count * fading) for at, place, count in self.newest]
        if steps < _LOWEST_STEP:
            return
        place = min(int((steps - _LOWEST_STEP) * _STEPS_OF_SCALE), _BINS - 1)
        self.counts[int(detected_at is not None), place] += 1.0
        if detected_at is not None:
            self.newest = [*self.newest, (detected_at, place, 1.0)][-_NEWEST:]

    def tail(self, prior: Tail, denied: Collection[float]) -> RoomTail:
        """Return the label's tail here; ``denied``: when the owner said that a detection was wrong, s since 1970."""
        counts = self.counts.copy()
        for at, place, count in self.newest:
            if any(abs(at - moment) <= _SAME_S for moment in denied):
                counts[:, place] += count, -count
        counts = counts[:, ::-1].T.clip(0.0).ravel()
        steps = _LOWEST_STEP + (np.arange(_BINS)[::-1] + 0.5) / _STEPS_OF_SCALE
        levels, some = np.repeat(prior.level + prior.scale * steps, 2), counts > 0
        taken = np.tile([False, True], _BINS)
        return RoomTail(prior.level, prior.scale, self.hours, levels[some], counts[some], taken[some])

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`of_json` reads."""
        places = np.argwhere(self.counts > _FORGOTTEN).tolist()
        counts = [[kind, place, float(self.counts[kind, place])] for kind, place in places]
        return {"hours": self.hours, "counts": counts, "newest": [list(one) for one in self.newest]}

    @classmethod
    def of_json(cls, note: dict[str, Any]) -> Reached:
        """Return what was noted."""
        found = cls(note["hours"], newest=[(at, place, count) for at, place, count in note["newest"]])
        for kind, place, count in note["counts"]:
            found.counts[kind, place] = count
        return found


@dataclass
class _Block:
    length_s: float = 0.0
    heard_s: float = 0.0
    highest: dict[str, float] = field(default_factory=dict)
    detected: list[str] = field(default_factory=list)


class Blocks:
    """Collects the scores of streams to blocks, for one model; :meth:`look` for threads that listen."""

    def __init__(
        self,
        tails: Mapping[str, Tail],
        names: Sequence[str],
        add: Callable[[float, dict[str, float], list[str]], None],
        count: Callable[[str], None],
    ) -> None:
        """Prepare for labels in the order of scores. ``add`` takes the seconds of a block, by every label that has a
        tail the highest score as the best of all, in scales above its level, and which ones were detected; ``count``
        every detected label at once.
        """
        self._tails, self._names, self._add, self._count = tails, names, add, count
        self._streams: dict[str, _Block] = {}

    def look(self, hop_s: float, averaged: Floats | None, detected: str, stream: str) -> None:
        """Take one window of a stream, and the averaged scores then, float32 [labels]; None where it was too quiet."""
        block = self._streams.setdefault(stream, _Block())
        block.length_s += hop_s
        if detected:
            block.detected.append(detected)
            self._count(detected)
        if averaged is not None:
            block.heard_s += hop_s
            best = int(averaged.argmax())
            name, tail = self._names[best], self._tails.get(self._names[best])
            if tail is not None:
                steps = (float(logits(averaged[best : best + 1])[0]) - tail.level) / tail.scale
                block.highest[name] = max(block.highest.get(name, steps), steps)
        if block.length_s >= _BLOCK_S - _ROUNDING_S:
            del self._streams[stream]
            if block.heard_s or block.detected:
                highest = {name: block.highest.get(name, -math.inf) for name in self._tails}
                self._add(block.heard_s, highest, block.detected)
