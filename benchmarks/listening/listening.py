"""Streams through the real detector; and the same scores again through its decisions, at other thresholds."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.listening.scoring import Heard, Score, score
from benchmarks.listening.streams import Stream
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import Loaded
from edge_client.detection.detector import Detector
from edge_client.detection.posterior_handling import PosteriorHandler
from fleet_protocol.arrays import Floats


@dataclass(frozen=True)
class Listened:
    """What a detector made of a stream.

    Attributes:
        score: at the configuration's thresholds.
        unknown: how many unknown sounds it reported.
        scores: float32 [hops, labels], of each window alone.
        at_s: float64 [hops], when each window ended.
        seconds: of processor time.
    """

    score: Score
    unknown: int
    scores: Floats
    at_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    seconds: float


def listen(loaded: Loaded, stream: Stream, config: DetectorConfig) -> Listened:
    """Push a stream through a detector, hop by hop."""
    now = [0.0]
    detector = Detector(*loaded, config, clock=lambda: now[0])
    hop, rate = detector.hop_samples, detector.sample_rate_hz
    events, scores, at_s = [], [], []
    began = time.process_time()
    for start in range(0, len(stream.samples) - hop + 1, hop):
        now[0] = (start + hop) / rate
        windows = detector.counters.windows
        events += [heard.event for heard in detector.push(stream.samples[start : start + hop])]
        if detector.counters.windows > windows:
            scores.append(detector.scores)
            at_s.append(now[0])
    spent = time.process_time() - began
    heard = [Heard(event.time, event.label) for event in events if event.kind == "detected"]
    return Listened(
        score(stream.words, heard, len(stream.samples) / rate),
        sum(event.kind == "unknown" for event in events),
        np.array(scores),
        np.array(at_s),
        spent,
    )


def decide(listened: Listened, labels: tuple[str, ...], stream: Stream, config: DetectorConfig) -> Score:
    """Decide again on the same scores."""
    decisions = PosteriorHandler(
        np.full(len(labels), config.threshold, np.float32), config.average_s, config.refractory_s
    )
    heard = []
    for row, at_s in zip(listened.scores, listened.at_s, strict=True):
        slot = decisions.update(row, float(at_s))
        if slot is not None:
            heard.append(Heard(float(at_s), labels[slot]))
    return score(stream.words, heard, listened.score.hours * 3600)
