"""A sample of what a device hears, kept as embeddings: no sound, bounded in number, of all hours of the day.

Sound comes in blocks of about two seconds. Of a block the few windows about its highest score are kept as a run, so
that another head can average and score them as the detector would. Which blocks stay is drawn by priority sampling
(Duffield, Lund & Thorup 2007): a block that scores high for a label is likelier to stay, and because its likelihood is
known, the sample says without bias how often any score is reached. Each hour of the day has a sample of its own, in
which what is older slowly makes room (forward decay, Cormode et al. 2009).
"""

from __future__ import annotations

import calendar
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Doubles, Floats

# Length of a block, s. Two events of a label lie at least `refractory_s` apart, so a block has seldom more than one.
_BLOCK_S = 2.0
# Runs of an hour of the day, and bytes of all runs together.
_RUNS, _BYTES = 64, 4_000_000
_MOST_WINDOWS = 12
# How much likelier a block is to stay for each logit that it scores higher, from -7 to 7.
_STEEPNESS, _STEEPEST = 1.0, 7.0
# Age at which a block has half the chance of a new one to stay, s.
_HALF_LIFE_S = 7 * 86_400.0
HOUR_S, DAY_S = 3600.0, 86_400.0
HOURS = 24
# Days of which it is known how long was listened, and labels whose detections are told apart.
DAYS, LABELS = 60, 200
# The arrays of a sample that have a row for each run.
_OF_RUNS = ("windows", "at_s", "hours", "taken", "weights", "priorities")


@dataclass(frozen=True)
class Layout:
    """How runs are made, of embeddings of so many ``numbers``; sound heard with another layout is worth nothing.

    ``features``: digest of the front end's settings; ``hop_s``: time from one window to the next, s; ``averaged``:
    windows whose scores are averaged; ``before``: how many windows ago the one was that a word's first half is looked
    for in.
    """

    features: str
    numbers: int
    hop_s: float
    averaged: int
    before: int = 0

    @property
    def windows(self) -> int:
        """Windows of a run: those that are averaged, one more, and those before them."""
        return min(self.averaged + 1 + self.before, _MOST_WINDOWS)

    @property
    def block(self) -> int:
        """Windows of a block."""
        return max(round(_BLOCK_S / self.hop_s), self.windows)

    @property
    def runs(self) -> int:
        """Runs of an hour of the day."""
        return max(4, min(_RUNS, _BYTES // (HOURS * 2 * self.windows * self.numbers)))


@dataclass
class Sample:
    """Runs that were kept, with what makes rates of them.

    Attributes:
        windows: float16 [runs, windows, numbers]; NaN where it was too quiet to be classified.
        at_s: float64 [runs], seconds since 1970.
        hours: int8 [runs], hour of the day; hours and days are of local time.
        taken: int16 [runs], index into ``names`` of the label that was detected then, else -1.
        weights: float64 [runs], logarithm of the weight by which a run was drawn.
        priorities: float64 [runs], logarithm of weight divided by a random number; the least goes first.
        passed: float64 [24], the highest priority that had to go, by hour of the day; -inf where none had to.
        heard_s: seconds that were loud enough to be classified, by day since 1970 and hour of the day.
        detections: number of detections by day since 1970 and label.
    """

    windows: NDArray[np.float16]
    at_s: Doubles
    hours: NDArray[np.int8]
    taken: NDArray[np.int16]
    weights: Doubles
    priorities: Doubles
    passed: Doubles
    names: list[str] = field(default_factory=list)
    heard_s: dict[tuple[int, int], float] = field(default_factory=dict)
    detections: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def empty(cls, layout: Layout, runs: int = 0) -> Sample:
        """Return room for so many runs, none of which is there yet."""
        return cls(
            np.zeros((runs, layout.windows, layout.numbers), np.float16),
            np.zeros(runs),
            np.zeros(runs, np.int8),
            np.full(runs, -1, np.int16),
            np.zeros(runs),
            np.full(runs, -np.inf),
            np.full(HOURS, -np.inf),
        )

    def chances(self) -> Doubles:
        """Return by run how likely it was to stay, float64 [runs], above 0 to 1."""
        passed = np.maximum(self.passed[self.hours], -1e300)
        return np.asarray(np.exp(np.minimum(0.0, self.weights - passed)))

    @property
    def heard_hours(self) -> float:
        """Hours that were loud enough to be classified."""
        return sum(self.heard_s.values()) / HOUR_S


def local_cell(moment: float) -> tuple[int, int]:
    """Return the day since 1970, and the hour of the day, 0 to 23, both of local time, of seconds since 1970."""
    local = time.localtime(moment)
    return int(calendar.timegm(local) // DAY_S), local.tm_hour


class Reservoir:
    """Takes what detectors look at, each in a thread of its own; any thread may take a copy of the sample."""

    def __init__(
        self,
        layout: Layout,
        kept: Sample | None = None,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        """Go on with a sample of the same layout, or begin with none; ``clock``: seconds since 1970."""
        self.layout = layout
        self._clock = clock
        self._rng = np.random.default_rng(seed)
        self._lock = threading.Lock()
        self._blocks: dict[str, list[tuple[Floats | None, float]]] = {}
        self._taken: dict[str, str] = {}
        self._begin(kept)

    def forget(self) -> None:
        """Begin anew."""
        self._begin(None)

    def look(self, embedding: Floats | None, score: float, detected: str = "", stream: str = "") -> None:
        """Take one window of a stream; an hour that two streams heard is two hours.

        Args:
            embedding: float32 [1, numbers] or [numbers]; None where the window was too quiet to be classified.
            score: highest averaged score of any label now, 0..1.
            detected: label that was detected now, if any.
        """
        block = self._blocks.setdefault(stream, [])
        block.append((None if embedding is None else embedding.ravel(), score))
        self._taken[stream] = taken = detected or self._taken.get(stream, "")
        if detected:
            self._count(detected)
        before = self.layout.windows - 1
        if len(block) < self.layout.block + before:
            return
        self._taken[stream] = ""
        self._blocks[stream] = block[len(block) - before :] if before else []
        heard = sum(row is not None for row, _ in block[before:])
        if heard:
            self._keep(block, before, heard * self.layout.hop_s, taken)

    def counts(self) -> tuple[dict[tuple[int, int], float], dict[tuple[int, str], int]]:
        """Return ``heard_s`` and ``detections`` of the sample."""
        with self._lock:
            return dict(self._kept.heard_s), dict(self._kept.detections)

    def sample(self) -> Sample:
        """Return a copy of what was kept."""
        with self._lock:
            kept, rows = self._kept, np.flatnonzero(np.isfinite(self._kept.priorities))
            columns: dict[str, Any] = {name: getattr(kept, name)[rows] for name in _OF_RUNS}
            heard_s, detections = dict(kept.heard_s), dict(kept.detections)
            return Sample(
                **columns, passed=kept.passed.copy(), names=list(kept.names), heard_s=heard_s, detections=detections
            )

    def _begin(self, kept: Sample | None) -> None:
        runs = self.layout.runs
        fresh = Sample.empty(self.layout, HOURS * runs)
        if kept is not None:
            for hour in range(HOURS):
                rows = np.flatnonzero(kept.hours == hour)
                rows = rows[np.argsort(-kept.priorities[rows])][:runs]
                places = hour * runs + np.arange(len(rows))
                for name in _OF_RUNS:
                    getattr(fresh, name)[places] = getattr(kept, name)[rows]
            fresh.passed[:] = kept.passed
            fresh.names, fresh.heard_s, fresh.detections = list(kept.names), dict(kept.heard_s), dict(kept.detections)
        self._newest = float(fresh.at_s.max())
        with self._lock:
            self._kept = fresh

    def _count(self, label: str) -> None:
        day, _ = local_cell(self._clock())
        with self._lock:
            detections = self._kept.detections
            detections[day, label] = detections.get((day, label), 0) + 1
            for key in [key for key in detections if key[0] <= day - DAYS]:
                del detections[key]

    def _keep(self, block: list[tuple[Floats | None, float]], before: int, heard_s: float, taken: str) -> None:
        """Count a block, and draw whether its run stays."""
        now = self._clock()
        if now < self._newest - DAY_S:  # the clock was ahead: what was heard then would never make room
            self._begin(None)
        self._newest = now
        day, hour = local_cell(now)
        peak = max(range(before, len(block)), key=lambda index: (block[index][1], block[index][0] is not None))
        score = min(max(block[peak][1], 1e-9), 1 - 1e-9)
        logit = float(np.clip(np.log(score / (1 - score)), -_STEEPEST, _STEEPEST))
        weight = _STEEPNESS * logit + now * np.log(2) / _HALF_LIFE_S
        priority = weight - np.log(1.0 - self._rng.random())
        with self._lock:
            kept, runs = self._kept, self.layout.runs
            kept.heard_s[day, hour] = kept.heard_s.get((day, hour), 0.0) + heard_s
            for key in [key for key in kept.heard_s if key[0] <= day - DAYS]:
                del kept.heard_s[key]
            places = slice(hour * runs, (hour + 1) * runs)
            place = places.start + int(kept.priorities[places].argmin())
            least = float(kept.priorities[place])
            kept.passed[hour] = max(kept.passed[hour], min(least, priority))
            if priority <= least:
                return
            end = min(peak + 2, len(block))  # the score of another head may be highest a window later
            rows = [row for row, _ in block[end - self.layout.windows : end]]
            kept.windows[place] = [
                np.full(self.layout.numbers, np.nan) if row is None else np.clip(row, -6e4, 6e4) for row in rows
            ]
            kept.at_s[place], kept.hours[place] = now, hour
            kept.weights[place], kept.priorities[place] = weight, priority
            kept.taken[place] = self._index(taken) if taken else -1

    def _index(self, label: str) -> int:
        names = self._kept.names
        if label not in names and len(names) < LABELS:
            names.append(label)
        return names.index(label) if label in names else -1
