"""What one detector makes of all streams, as numbers: at many thresholds, and at those for a promised rate."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.listening.listening import Listened
from benchmarks.listening.material import KNOWN
from benchmarks.listening.scoring import Heard, Score, score
from benchmarks.listening.streams import Stream, Word
from edge_client.detection.calibration import Tail
from fleet_protocol.arrays import Floats

KINDS = ("background", "other word", "confusion", "repeat")
# Thresholds whose logits are a quarter apart, so that they are dense where scores are: near 1.
THRESHOLDS = tuple(round(float(1 / (1 + np.exp(-logit))), 6) for logit in np.arange(-1.0, 12.01, 0.25))
PROMISES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
# Rates of false accepts at which false rejects are compared.
RATES = (10.0, 2.0)


def curve(listened: Listened, words: Sequence[Word], thresholds: Iterable[float]) -> list[dict[str, Any]]:
    """Return false accepts and false rejects at every threshold, the same for all labels."""
    labels = len(listened.labels)
    return [
        {"threshold": threshold, **_point(_at(listened, words, np.full(labels, threshold, np.float32)))}
        for threshold in thresholds
    ]


def promised(listened: Listened, words: Sequence[Word], tails: Mapping[str, Tail]) -> list[dict[str, Any]]:
    """Return what is measured where every label's threshold is chosen for a rate; nothing without tails."""
    if not tails:
        return []
    points = []
    for rate in PROMISES:
        thresholds = [tails[label].threshold(rate) for label in listened.labels]
        found = _at(listened, words, np.array(thresholds, np.float32))
        by_label = {label: round(value, 4) for label, value in zip(listened.labels, thresholds, strict=True)}
        points.append({"promised_per_label": rate, "thresholds": by_label, **_point(found)})
    return points


def at_most(points: Iterable[Mapping[str, Any]], rate: float) -> float | None:
    """Return the fewest false rejects, %, of the points with at most so many false accepts an hour."""
    rejects = [point["false_reject_percent"] for point in points if point["false_accepts_per_hour"] <= rate]
    return min(rejects, default=None)


def figures(
    snr_db: float,
    listened: Listened,
    stream: Stream,
    tails: Mapping[str, Tail],
    thresholds: Sequence[float] = THRESHOLDS,
) -> dict[str, Any]:
    """Return a stream's figures; those of the curve at these thresholds."""
    found = score(stream.words, listened.heard, listened.seconds)
    points = curve(listened, stream.words, thresholds)
    return {
        "snr_db": snr_db,
        "minutes": round(found.hours * 60, 1),
        **_point(found),
        "false_reject_percent_by_label": {
            label: round(100 * found.rejected[label] / max(1, found.said[label]), 1) for label in KNOWN
        },
        "false_accepts_per_hour_by_kind": {kind: round(found.per_hour(kind), 1) for kind in KINDS},
        "false_accepts_by_word": taken_words(stream.words, listened.heard),
        "unknown_per_hour": round(listened.unknown / found.hours, 1),
        "false_reject_percent_at": {f"{rate:g}": at_most(points, rate) for rate in RATES},
        "curve": points,
        "promised": promised(listened, stream.words, tails),
    }


def quiet_figures(
    listened: Listened, tails: Mapping[str, Tail], thresholds: Sequence[float] = THRESHOLDS
) -> dict[str, Any]:
    """Return the figures of hours in which nobody says a taught word; those of the curve at these thresholds."""
    found = score((), listened.heard, listened.seconds)
    keys = ("threshold", "false_accepts_per_hour")
    return {
        "hours": round(found.hours, 2),
        "false_accepts_per_hour": round(found.false_accepts_per_hour, 2),
        "curve": [{key: point[key] for key in keys} for point in curve(listened, (), thresholds)],
        "promised": [
            {key: point[key] for key in ("promised_per_label", "false_accepts_per_hour")}
            for point in promised(listened, (), tails)
        ],
    }


def taken_words(words: Sequence[Word], heard: Sequence[Heard]) -> dict[str, int]:
    """Return how often each word was heard as a label that it is not, the most frequent first."""
    begins = [word.begin_s for word in words]
    taken: Counter[str] = Counter()
    for event in heard:
        before = bisect.bisect_right(begins, event.at_s) - 1
        if before >= 0 and words[before].label != event.label:
            taken[f"{words[before].word} as {event.label}"] += 1
    return dict(taken.most_common())


def _at(listened: Listened, words: Sequence[Word], thresholds: Floats) -> Score:
    return score(words, listened.at(thresholds), listened.seconds)


def _point(found: Score) -> dict[str, float]:
    return {
        "false_accepts_per_hour": round(found.false_accepts_per_hour, 2),
        "false_reject_percent": round(100 * found.false_rejects, 1),
    }
