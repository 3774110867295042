"""Devices of one front end hear one stream: the features of its windows are made once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.listening.measurement import Listened, averaged, listen
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Loaded
from edge_client.detection.pace import Pace, pace_of
from edge_client.detection.scores import Scorer, Windows, windows_before
from fleet_protocol.numbers.arrays import Bools, Floats


@dataclass(frozen=True)
class Hops:
    """What one device heard at each hop of a stream."""

    listened: Listened  # what it made of it
    loud: Bools  # whether a window was loud enough, bool [hops]
    features: Floats  # of the loud ones, float32 [windows, frames, numbers]
    pace: Pace

    def earlier(self, states: int) -> Floats:
        """Return features of earlier windows, as a :class:`Scorer` takes them."""
        rows = np.full((len(self.loud), *self.features.shape[1:]), np.nan, np.float32)
        rows[self.loud] = self.features
        return earlier_of(rows[:, 0], windows_before(self.pace.hop_s), states)[:, self.loud][:, :, None]

    def scored(self, scorer: Scorer, windows: Windows) -> Floats:
        """Return what a detector averages, float32 [hops, labels], of the loud windows."""
        every = np.zeros((len(self.loud), scorer.labels), np.float32)
        limits = np.ones_like(every)
        every[self.loud], limits[self.loud] = scorer.of(windows), scorer.limits(windows)
        return averaged(every, self.listened.at_s, self.pace.average_s, limits)


def earlier_of(windows: Floats, count: int, states: int) -> Floats:
    """Return for each window, float32 [..., windows, numbers], those ``count`` windows ago, twice as many, and so on.

    float32 [states, ..., windows, numbers]; NaN where there is none.
    """
    found = np.full((states, *windows.shape), np.nan, windows.dtype)
    for state in range(1, states + 1):
        if 0 < (ago := state * count) < windows.shape[-2]:
            found[state - 1, ..., ago:, :] = windows[..., :-ago, :]
    return found


def hear(one: Loaded, parts: Iterable[Floats], config: DetectorConfig) -> Hops:
    """Let a device, which has labels, listen to a stream, given in parts at ``RATE_HZ``."""
    rows: list[Floats | None] = []  # None of a window too quiet
    listened = listen(one, parts, config, rows.append)
    features = np.stack([row for row in rows if row is not None])
    pace = pace_of(config, one.model.manifest.feature_settings)
    return Hops(listened, np.array([row is not None for row in rows]), features, pace)


def listen_for_all(one: Loaded, parts: Iterable[Floats], config: DetectorConfig) -> Callable[[Loaded], Listened]:
    """Let one device listen to a stream; return what says what the detector of each other device makes of it."""
    hops = hear(one, parts, config)

    def of(loaded: Loaded) -> Listened:
        scorer = Scorer(loaded.model, loaded.label_map, loaded.prototypes, loaded.built_in)
        scores = hops.scored(scorer, scorer.windows(hops.features, hops.earlier(scorer.states)))
        labels, longer = loaded.label_map.names, loaded.longer
        return replace(hops.listened, labels=labels, heard=(), scores=scores, lasting=loaded.lasting, longer=longer)

    return of
