"""From scores per window to "this was heard", once: posterior handling (Chen et al. 2014, small-footprint keyword
spotting), with a threshold for each label, a refractory time, and a release below which a label is armed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence

import numpy as np

from edge_client.config.sections import DetectorConfig
from edge_client.detection.scores import ABOUT_S, AFTER_S
from fleet_protocol.numbers.arrays import Bools, Floats, Ints

# A label that was heard can be heard again after its averaged score fell below this share of its threshold.
RELEASE = 0.5
# Hops are counted in float seconds.
ROUNDING_S = 1e-6


def reaches(scores: Floats, columns: Floats, silent: Bools) -> tuple[Ints, Bools]:
    """Return the only label that scores, float32 [..., labels], may be of, and in which columns they reach it.

    ``columns``: thresholds, float32 [labels, columns]; ``silent``: labels that are not heard now, bool [labels].
    """
    masked = np.where(silent, -1.0, scores)
    best = masked.argmax(axis=-1)
    return best, (masked.max(axis=-1)[..., None] >= columns[best]) & ~silent[best][..., None]


class Average:
    """Averages the scores of a stream's windows over the last seconds; what comes after a window may limit its score.

    ``seconds``: 0: the newest window's alone count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._rows = seconds, deque[tuple[float, Floats]]()

    def update(self, scores: Floats, at_s: float, limits: Floats | None = None) -> Floats:
        """Take the scores of one window, float32 [labels]; return the average.

        ``limits``: at most these are the scores of the window ``AFTER_S`` before, float32 [labels].
        """
        if limits is not None:
            near = [row for row, (then_s, _) in enumerate(self._rows) if abs(at_s - then_s - AFTER_S) <= ABOUT_S]
            for row in near[-1:]:
                then_s, then = self._rows[row]
                self._rows[row] = then_s, np.minimum(then, limits)
        self._rows.append((at_s, scores))
        while self._rows[0][0] < at_s - self._seconds + ROUNDING_S and len(self._rows) > 1:
            self._rows.popleft()
        return np.asarray(np.mean([row for _, row in self._rows], axis=0, dtype=np.float32))


class Decisions:
    """Decides which label is heard, once; at several thresholds of each, of which each column is a device of its own.

    All columns follow the first one where labels wait for others: only that is heard.

    Attributes:
        columns: float32 [labels, columns], averaged score from which a label counts as heard.
        averaged: float32 [labels], the newest averaged scores.
        off: bool [labels], those that are not listened for.
        ended: Labels that last and are over since the newest scores, with the time until which they were heard, s.
    """

    def __init__(
        self,
        columns: Floats,
        labels: Sequence[str],
        config: DetectorConfig,
        lasting: Container[str] = (),
        off: Container[str] = (),
        *,
        average_s: float = 0.0,
        release: float = RELEASE,
    ) -> None:
        """Begin with nothing heard.

        Args:
            columns: float32 [labels, columns].
            labels: Their names.
            config: How long a label is not heard again, which ones wait for which others, and when a sound is over.
            lasting: Those whose sounds have a begin and an end: of these, a short pause is a part of the sound.
            off: Those that are not listened for: they are not heard, keep no other from being so, and none waits.
            average_s: Seconds over which :meth:`update` averages scores.
            release: Share of its threshold below which a label is armed again.
        """
        self.columns = columns
        self.averaged: Floats = np.zeros(len(columns), np.float32)
        self._average = Average(average_s)
        self.ended: tuple[tuple[int, float], ...] = ()
        self._refractory_s, self._release = config.refractory_s, release
        self._lasts = np.array([label in lasting for label in labels], np.bool_)
        self._pause_s = np.where(self._lasts, config.over_after_s, 0.0)[:, None]
        self._waits = config.waiting_slots(labels)
        self.off = np.array([label in off for label in labels], np.bool_)
        self._armed = np.ones(columns.shape, np.bool_)
        self._heard_at = np.full(columns.shape, -np.inf)
        self._present_at = np.full(columns.shape, -np.inf)

    def go_on(self, former: Decisions, slots: Mapping[int, int]) -> None:
        """Take over what former decisions on the same stream were, for labels that stay: to their slots from former
        ones. A sound that goes on is not heard again, and is over as ever.
        """
        old, new = list(slots), list(slots.values())
        self._armed[new] = former._armed[old]
        self._heard_at[new] = former._heard_at[old]
        self._present_at[new] = former._present_at[old]

    @property
    def sounding(self) -> tuple[int, ...]:
        """The labels that last: they were heard, and are not over."""
        return tuple(np.flatnonzero(self._lasts & ~self._armed[:, 0]).tolist())

    def decide(self, averaged: Floats, at_s: float) -> tuple[int, Bools]:
        """Take averaged scores, float32 [labels]; return the label that may be heard, and in which columns it is."""
        below = averaged[:, None] < self._release * self.columns
        np.copyto(self._present_at, at_s, where=~below)
        over = below & (at_s - self._present_at >= self._pause_s - ROUNDING_S)
        now_over = np.flatnonzero(over[:, 0] & self._lasts & ~self._armed[:, 0])
        self.ended = tuple((int(slot), float(self._present_at[slot, 0])) for slot in now_over)
        self._armed |= over
        if not len(averaged):
            return 0, np.zeros(self.columns.shape[1], np.bool_)
        silent = self.off
        if self._waits:
            heard = (~self._armed[:, 0] | (averaged >= self.columns[:, 0])) & ~self.off
            silent = self.off.copy()
            silent[[slot for slot, others in self._waits.items() if heard[others].any()]] = True
        found, reached = reaches(averaged, self.columns, silent)
        best = int(found)
        rested = at_s - self._heard_at[best] >= self._refractory_s - ROUNDING_S
        now: Bools = reached & self._armed[best] & rested
        self._armed[best] &= ~now
        np.copyto(self._heard_at[best], at_s, where=now)
        return best, now

    def update(self, scores: Floats, at_s: float, limits: Floats | None = None) -> int | None:
        """Take what :meth:`Average.update` takes; return the label that is heard now in the first column."""
        self.averaged = self._average.update(scores, at_s, limits)
        best, heard = self.decide(self.averaged, at_s)
        return best if heard[0] else None
