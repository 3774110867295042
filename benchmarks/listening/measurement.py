"""Streams through the real detector, what it heard beside what was said, and the same scores at other thresholds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.listening.material import RATE_HZ, Stream, Word
from edge_client.audio.resampling import StreamResampler
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.longer_words import Held, Longer
from edge_client.detection.posterior_handling import RELEASE, Average, Decisions
from edge_client.detection.thresholds import Tail
from fleet_protocol.numbers.arrays import Floats

# An event belongs to the word that ended up to so many seconds before.
_WITHIN_S = 1.25


@dataclass(frozen=True)
class Heard:
    """One event: when, in seconds of the stream, and which label."""

    at_s: float
    label: str


def hits(words: Sequence[Word], heard: Sequence[Heard]) -> tuple[set[int], int]:
    """Return which words were heard, by number, and how many false accepts there are: every event but a word's first.

    Words and events are in order of time.
    """
    found: set[int] = set()
    current = -1
    for event in heard:
        while current + 1 < len(words) and words[current + 1].begin_s <= event.at_s:
            current += 1
        is_near = current >= 0 and event.at_s - words[current].begin_s <= words[current].seconds + _WITHIN_S
        if is_near and words[current].label == event.label:
            found.add(current)
    return found, len(heard) - len(found)


def rates(words: Sequence[Word], heard: Sequence[Heard], seconds: float) -> dict[str, float]:
    """Return false accepts an hour, and how many of the words that have a label were not heard, %."""
    found, accepts = hits(words, heard)
    known = [number for number, word in enumerate(words) if word.label is not None]
    rejected = sum(number not in found for number in known)
    return {
        "false_accepts_per_hour": round(accepts / (seconds / 3600), 2),
        "false_reject_percent": round(100 * rejected / max(1, len(known)), 1),
    }


Times = np.ndarray[tuple[int], np.dtype[np.float64]]


def averaged(scores: Floats, at_s: Times, average_s: float, limits: Floats) -> Floats:
    """Return what a detector averages over a time, of scores of each window alone, float32 [hops, labels].

    ``limits``: of each window, what those of the window ``AFTER_S`` before may be, float32 [hops, labels].
    """
    average, rows = Average(average_s), zip(scores, at_s.tolist(), limits, strict=True)
    return np.array([average.update(*row) for row in rows], np.float32).reshape(scores.shape)


# Thresholds whose logits are a quarter apart, so that they are dense where scores are: near 1.
THRESHOLDS = tuple(round(float(1 / (1 + np.exp(-logit))), 6) for logit in np.arange(-1.0, 12.01, 0.25))


@dataclass(frozen=True)
class Listened:
    """What a detector made of a stream."""

    labels: tuple[str, ...]  # that it listened for
    heard: tuple[Heard, ...]  # its events, in order of time, at the configuration's thresholds
    scores: Floats  # float32 [hops, labels], averaged
    at_s: Times  # [hops], when each window ended, s
    config: DetectorConfig
    seconds: float  # of the stream
    spent_s: float = 0.0  # of processor time
    lasting: frozenset[str] = frozenset()  # labels, as of :class:`Loaded`
    # Share of its threshold below which a label is armed again; of thresholds below 0, as of minus a distance, 1 alone
    # makes sense.
    release: float = RELEASE
    longer: Longer = field(default_factory=dict)  # as of a :class:`Detector`

    def at(self, thresholds: Floats | float) -> list[Heard]:
        """Decide again on the same scores, at thresholds of the labels, float32 [labels], or one of all."""
        return self.at_each(np.array(thresholds, np.float32).reshape(-1, 1))[0]

    @cached_property
    def at_thresholds(self) -> list[list[Heard]]:
        """What would be heard at each of :data:`THRESHOLDS`, the same for all labels."""
        return self.at_each(np.array([THRESHOLDS], np.float32))

    def at_each(self, columns: Floats) -> list[list[Heard]]:
        """Decide again, as the detector does, at thresholds in columns, float32 [labels or 1, columns]."""
        each = np.zeros((len(self.labels), columns.shape[1]), np.float32) + columns
        deciding = Decisions(each, self.labels, self.config, self.lasting, release=self.release)
        heard: list[list[Heard]] = [[] for _ in each.T]
        every: list[Held[Heard]] = [Held(self.longer) for _ in each.T]
        for row, at_s in zip(self.scores, self.at_s.tolist(), strict=True):
            best, now = deciding.decide(row, at_s)
            label = self.labels[best]
            for found, held, is_heard in zip(heard, every, now.tolist(), strict=True):
                found += held.update(at_s, label, Heard(at_s, label)) if is_heard else held.update(at_s, None)
        return heard


def listen(
    loaded: Loaded, parts: Iterable[Floats], config: DetectorConfig, see: Callable[[Floats | None], None] | None = None
) -> Listened:
    """Push a stream, given in parts at ``RATE_HZ``, through a detector, hop by hop.

    ``see`` takes the features of each hop.
    """
    now = [0.0]
    label_map = loaded.label_map
    detector = Detector(loaded, config, clock=lambda: now[0])
    hop, rate = detector.hop_samples, detector.sample_rate_hz
    resampler = StreamResampler(RATE_HZ, rate)
    events, means, at_s, pending, seconds, spent = [], [], [], np.zeros(0, np.float32), 0.0, 0.0
    for part in parts:
        seconds += len(part) / RATE_HZ
        pending = np.concatenate([pending, resampler.push(part)])
        began = time.process_time()
        for start in range(0, len(pending) - hop + 1, hop):
            now[0] += hop / rate
            windows = detector.counters.windows
            events += [heard.event for heard in detector.push(pending[start : start + hop])]
            if detector.counters.windows > windows:
                if see is not None:
                    see(detector.features)
                means.append(detector.averaged)
                at_s.append(now[0])
        pending = pending[len(pending) // hop * hop :]
        spent += time.process_time() - began
    heard = tuple(Heard(event.time, event.label) for event in events if event.kind == "detected")
    scores, times, lasting, longer = np.array(means), np.array(at_s), loaded.lasting, loaded.longer
    return Listened(label_map.names, heard, scores, times, config, seconds, spent, lasting, longer=longer)


def in_parts(samples: Floats) -> Sequence[Floats]:
    """Cut a stream into parts of ten minutes."""
    size = 600 * RATE_HZ
    return [samples[start : start + size] for start in range(0, len(samples), size)]


PROMISES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
# Rates of false accepts at which false rejects are compared.
RATES = (10.0, 2.0)


def promised(listened: Listened, words: Sequence[Word], tails: Mapping[str, Tail]) -> list[dict[str, float]]:
    """Return what is measured where every label's threshold is chosen for a rate; nothing without tails."""
    if not tails:
        return []
    columns = [[tails[label].threshold(rate) for rate in PROMISES] for label in listened.labels]
    found = zip(PROMISES, listened.at_each(np.array(columns, np.float32)), strict=True)
    return [{"promised_per_label": rate, **rates(words, heard, listened.seconds)} for rate, heard in found]


def at_most(points: Iterable[Mapping[str, Any]], rate: float) -> float:
    """Return the fewest false rejects, %, of the points with at most so many false accepts an hour; 100 of none."""
    rejects = [point["false_reject_percent"] for point in points if point["false_accepts_per_hour"] <= rate]
    return min(rejects, default=100.0)


def figures(snr_db: float, listened: Listened, stream: Stream, tails: Mapping[str, Tail]) -> dict[str, Any]:
    """Return a stream's figures: at the detector's own thresholds, and at others, the same for all labels."""
    points = [rates(stream.words, heard, listened.seconds) for heard in listened.at_thresholds]
    return {
        "snr_db": snr_db,
        "minutes": round(listened.seconds / 60, 1),
        **rates(stream.words, listened.heard, listened.seconds),
        "false_reject_percent_at": {f"{rate:g}": at_most(points, rate) for rate in RATES},
        "promised": promised(listened, stream.words, tails),
    }
