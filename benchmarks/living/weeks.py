"""A taught device lives in a room: replayed from embeddings, hour by hour, as its detector and its reservoir would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.listening.measurement import Heard, averaged, decisions, score
from benchmarks.living.rooms import Part
from edge_client.config.sections import DetectorConfig
from edge_client.daemon.listening_loop import Loaded
from edge_client.detection.thresholds import Tail
from edge_client.room.reservoir import DAY_S, HOUR_S, Reservoir
from fleet_protocol.arrays import Doubles, Floats

PROMISES = (0.5, 1.0, 2.0)
# Monday, 5 January 2026, 0:00 UTC.
BEGIN_S = 1_767_571_200.0


def scores_of(part: Part, loaded: Loaded, config: DetectorConfig) -> Floats:
    """Return the scores of a part's windows as the detector averages them, float32 [windows, labels]."""
    labels = len(loaded.label_map.slots)
    x = loaded.model.normalise(part.embeddings.astype(np.float32)[:, None])
    scores = loaded.model.predict(x, loaded.label_map.listening_mask)[:, :labels]
    scores[part.levels_db < config.energy_gate_db] = 0.0
    return averaged(scores, times(part), 2 * part.hop_s)


def times(part: Part) -> Doubles:
    """Return when each window ended, float64 [windows], s from the part's begin."""
    return part.clip_s + part.hop_s * np.arange(len(part.embeddings))


def thresholds(labels: Sequence[str], tails: Mapping[str, Tail], promise: float) -> Floats:
    """Return the labels' thresholds for a promised rate, float32 [labels]."""
    return np.array([tails[label].threshold(promise) for label in labels], np.float32)


def live(
    part: Part, day: int, loaded: Loaded, config: DetectorConfig, reservoir: Reservoir, clock: list[float]
) -> None:
    """Let a device listen to a part of a day; ``clock`` holds the seconds since 1970 that the reservoir reads."""
    means, at_s = scores_of(part, loaded, config), times(part)
    labels = loaded.label_map.names
    limits = thresholds(labels, loaded.tails, config.false_accepts_per_hour)
    heard = {round(one.at_s / part.hop_s): one.label for one in decisions(means, at_s, labels, limits, 1.0)}
    best = means.max(axis=1)
    quiet = part.levels_db < config.energy_gate_db
    begin = BEGIN_S + day * DAY_S + part.hour * HOUR_S
    for row, top, silent, at in zip(part.embeddings, best, quiet, at_s, strict=True):
        clock[0] = begin + float(at)
        reservoir.look(None if silent else row, float(top), heard.get(round(at / part.hop_s), ""))


@dataclass
class Measured:
    """Figures of one device at one moment, by promised rate.

    ``misses`` by ratio in dB, 0..1; ``false_accepts_per_hour`` by label.
    """

    misses: dict[float, dict[float, float]]
    false_accepts_per_hour: dict[float, dict[str, float]]
    hours: float


def measure(
    loaded: Loaded, tails: Mapping[str, Tail], days: Sequence[Part], words: Mapping[float, Part], config: DetectorConfig
) -> Measured:
    """Return false accepts in parts without taught words, and misses of taught words."""
    labels = loaded.label_map.names
    streams = [(scores_of(part, loaded, config), times(part)) for part in days]
    said = {snr: (scores_of(part, loaded, config), times(part), part) for snr, part in words.items()}
    loud_s = sum(part.hop_s * int((part.levels_db >= config.energy_gate_db).sum()) for part in days)
    misses: dict[float, dict[float, float]] = {}
    accepts: dict[float, dict[str, float]] = {}
    for promise in PROMISES:
        limits = thresholds(labels, tails, promise)
        counts: Counter[str] = Counter()
        for means, at_s in streams:
            counts.update(one.label for one in decisions(means, at_s, labels, limits, config.refractory_s))
        accepts[promise] = {label: counts[label] / (loud_s / HOUR_S) for label in labels}
        misses[promise] = {}
        for snr, (means, at_s, part) in said.items():
            heard: list[Heard] = decisions(means, at_s, labels, limits, config.refractory_s)
            misses[promise][snr] = score(part.words, heard, part.seconds).false_rejects
    return Measured(misses, accepts, loud_s / HOUR_S)
