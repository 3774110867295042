"""How sensitive a label is, in steps that its owner chooses from, and how often each step would have heard it lately.

A step is half a logit of the threshold: near 1 the scores differ less than they do near one half.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from edge_client.config.sections import DetectorConfig
from edge_client.detection.longer_words import Held, Longer
from edge_client.detection.posterior_handling import Decisions
from edge_client.detection.thresholds import logits, probability

STEPS = 16
"""The most sensitive step, at a threshold of one half; 0 is the least sensitive."""
_PER_LOGIT = 2.0
_HOUR_S, _HOURS = 3600.0, 24


def threshold_at(step: int) -> float:
    """Return the threshold of a step, 0..1."""
    return probability((STEPS - step) / _PER_LOGIT)


def step_at(threshold: float) -> int:
    """Return the step that is nearest to a threshold."""
    logit = float(logits(np.array([threshold], np.float32))[0])
    return min(STEPS, max(0, STEPS - round(_PER_LOGIT * logit)))


class StepCounts:
    """Counts what one stream's detector would have heard at each step; used by its thread, read by any.

    It has the detector's own ``Decisions``, with a column for each step beside the thresholds that stand. Nothing is
    kept beyond the process.
    """

    def __init__(self, config: DetectorConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._lock = threading.Lock()
        self._steps = np.array([threshold_at(step) for step in range(STEPS + 1)], np.float32)
        self._standing: dict[str, float] = {}
        self._lasting: frozenset[str] = frozenset()
        self._since: dict[str, float] = {}
        self._hour = 0
        self._labels: tuple[str, ...] = ()
        self._counts = np.zeros((_HOURS, 0, STEPS + 1), np.int64)
        self._begin((), frozenset())

    def update(self, standing: Mapping[str, tuple[float, float]], lasting: Collection[str], longer: Longer) -> None:
        """Take the newest averaged score and the threshold of every label.

        ``lasting``: ``Loaded.lasting``; ``longer``: ``Detector.longer``.
        """
        now = self._clock()
        with self._lock:
            if self._labels != tuple(standing) or self._lasting != frozenset(lasting):
                self._begin(tuple(standing), frozenset(lasting))
            self._standing = {label: threshold for label, (_, threshold) in standing.items()}
            hour = int(now // _HOUR_S)
            for passed in range(max(self._hour + 1, hour - _HOURS + 1), hour + 1):
                self._counts[passed % _HOURS] = 0
            self._hour = hour
            for label in self._labels:
                self._since.setdefault(label, now)
            if not self._labels:
                return
            self._decisions.columns[:, 0] = list(self._standing.values())
            scores = np.array([score for score, _ in standing.values()], np.float32)
            best, heard = self._decisions.decide(scores, now)
            for step, (held, is_heard) in enumerate(zip(self._held, heard[1:].tolist(), strict=True)):
                held.longer = longer
                for slot in held.update(now, self._labels[best] if is_heard else None, best):
                    self._counts[hour % _HOURS, slot, step] += 1

    def _begin(self, labels: tuple[str, ...], lasting: frozenset[str]) -> None:
        """Go on with other labels; what was counted of those that stay is kept."""
        counts = np.zeros((_HOURS, len(labels), STEPS + 1), np.int64)
        for row, label in enumerate(labels):
            if label in self._labels:
                counts[:, row] = self._counts[:, self._labels.index(label)]
        self._labels, self._lasting, self._counts = labels, lasting, counts
        self._since = {label: since for label, since in self._since.items() if label in labels}
        thresholds = np.tile(np.append(np.float32(1.0), self._steps), (len(labels), 1))
        self._decisions = Decisions(thresholds, labels, self._config, lasting)
        self._held: list[Held[int]] = [Held({}) for _ in self._steps]

    def to_json(self) -> dict[str, Any]:
        """Return by label the ``threshold``, and how often it was ``heard`` at each step in the last ``hours``."""
        with self._lock:
            now, counts = self._clock(), self._counts.sum(axis=0).tolist()
            return {
                label: {
                    "threshold": round(self._standing[label], 5),
                    "hours": round(min(_HOURS, (now - self._since[label]) / _HOUR_S), 3),
                    "heard": counts[row],
                }
                for row, label in enumerate(self._labels)
            }


def together(streams: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what :meth:`StepCounts.to_json` says of several streams as that of one."""
    found: dict[str, Any] = {}
    for stream in streams:
        for label, one in stream.items():
            before = found.get(label, one | {"heard": [0] * len(one["heard"])})
            heard = [a + b for a, b in zip(before["heard"], one["heard"], strict=True)]
            found[label] = one | {"hours": max(before["hours"], one["hours"]), "heard": heard}
    return found
