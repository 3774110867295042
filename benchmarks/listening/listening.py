"""Streams through the real detector; and the same scores again through its decisions, at other thresholds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.listening.decisions import Times, averaged, decisions
from benchmarks.listening.material import RATE_HZ
from benchmarks.listening.scoring import Heard
from edge_client.audio.resampling import StreamResampler
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import Loaded
from edge_client.detection.detector import Detector
from edge_client.detection.posterior_handling import RELEASE
from fleet_protocol.arrays import Floats


@dataclass(frozen=True)
class Listened:
    """What a detector made of a stream.

    Attributes:
        labels: that it listened for.
        heard: its events, in order of time, at the configuration's thresholds.
        unknown: how many unknown sounds it reported.
        scores: float32 [hops, labels], averaged.
        at_s: [hops], when each window ended, s.
        refractory_s: time after an event in which the same label makes no other, s.
        seconds: of the stream.
        spent_s: of processor time.
        release: see :func:`benchmarks.listening.decisions.decisions`.
    """

    labels: tuple[str, ...]
    heard: tuple[Heard, ...]
    unknown: int
    scores: Floats
    at_s: Times
    refractory_s: float
    seconds: float
    spent_s: float = 0.0
    release: float = RELEASE

    def at(self, thresholds: Floats) -> list[Heard]:
        """Decide again on the same scores.

        Args:
            thresholds: float32 [labels].
        """
        return decisions(self.scores, self.at_s, self.labels, thresholds, self.refractory_s, self.release)


def listen(loaded: Loaded, parts: Iterable[Floats], config: DetectorConfig) -> Listened:
    """Push a stream, given in parts at ``RATE_HZ``, through a detector, hop by hop."""
    now = [0.0]
    model, label_map, tails = loaded
    detector = Detector(model, label_map, config, clock=lambda: now[0], tails=tails)
    hop, rate = detector.hop_samples, detector.sample_rate_hz
    resampler = StreamResampler(RATE_HZ, rate)
    events, scores, at_s, pending, seconds, spent = [], [], [], np.zeros(0, np.float32), 0.0, 0.0
    for part in parts:
        seconds += len(part) / RATE_HZ
        pending = np.concatenate([pending, resampler.push(part)])
        began = time.process_time()
        for start in range(0, len(pending) - hop + 1, hop):
            now[0] += hop / rate
            windows = detector.counters.windows
            events += [heard.event for heard in detector.push(pending[start : start + hop])]
            if detector.counters.windows > windows:
                scores.append(detector.scores)
                at_s.append(now[0])
        pending = pending[len(pending) // hop * hop :]
        spent += time.process_time() - began
    heard = tuple(Heard(event.time, event.label) for event in events if event.kind == "detected")
    unknown = sum(event.kind == "unknown" for event in events)
    times = np.array(at_s)
    means = averaged(np.array(scores), times, config.average_s)
    return Listened(label_map.names, heard, unknown, means, times, config.refractory_s, seconds, spent)


def in_parts(samples: Floats, seconds: float = 600.0) -> Sequence[Floats]:
    """Cut a stream."""
    size = round(seconds * RATE_HZ)
    return [samples[start : start + size] for start in range(0, len(samples), size)]
