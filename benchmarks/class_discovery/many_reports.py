"""Thousands of reports in a round: time, memory and agreement of groups that are made first, on made-up embeddings.

Every device reports two sounds of which some are had by many and some by few (the k-th by 1/k as many as the first).
A sound has a centre, all centres have a part in common, and the devices' means scatter about it. The index is the
adjusted Rand index (Hubert & Arabie 1985), 1 where groups and sounds agree.
"""

import time
import tracemalloc
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import adjusted_rand_score

from aggregator_server.discovery import clustering
from aggregator_server.discovery.clustering import KnownClass, ReportedClass, discover
from aggregator_server.limits import REFERENCES_PER_ROUND
from fleet_protocol.arrays import Ints
from fleet_protocol.feature_settings import PRESETS, EmbeddingSettings, FrozenNetwork
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet

_NUMBERS, _KNOWN = 96, 8
_CASES = ((20, 1.2), (20, 1.6), (60, 1.2))
"""Numbers of sounds, and how far the devices' means scatter, in distances of a centre from the origin."""


class Fleet:
    """What devices report, what they know, and a public set of the known classes."""

    def __init__(self, reports: int, sounds: int, scatter: float, seed: int) -> None:
        """Draw all of it."""
        self._rng, self._scatter = np.random.default_rng(seed), scatter / np.sqrt(_NUMBERS)
        centres = self._rng.normal(size=(sounds + _KNOWN + 1, _NUMBERS)) / np.sqrt(_NUMBERS)
        self._centres = centres[:-1] + 0.4 * centres[-1]
        had = 1 / np.arange(1, sounds + 1)
        pairs = [self._rng.choice(sounds, 2, replace=False, p=had / had.sum()) for _ in range(reports // 2)]
        self.truth = np.concatenate(pairs)
        self.reports = [
            ReportedClass(f"device-{at // 2:05d}", at % 2, None, prototype=self._near(sound))
            for at, sound in enumerate(self.truth.tolist())
        ]
        self.known = [
            KnownClass(f"device-{at:05d}", f"c{at % _KNOWN}", prototype=self._near(sounds + at % _KNOWN))
            for at in range(REFERENCES_PER_ROUND)
        ]
        mel = asdict(PRESETS["log_mel"]) | {"preset": "any"}
        labels = np.arange(50 * _KNOWN) % _KNOWN
        self.public_set = PublicSet(
            EmbeddingSettings(**mel, numbers=_NUMBERS, network=FrozenNetwork.of(b"a network")),
            tuple(ClassInfo(f"c{index}", f"word {index}") for index in range(_KNOWN)),
            np.stack([self._near(sounds + int(label)) for label in labels]),
            labels.astype(np.int64),
            np.zeros(len(labels), np.bool_),
        )

    def _near(self, sound: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        noise = self._scatter * self._rng.normal(size=_NUMBERS)
        return np.asarray(self._centres[sound] + noise, np.float32)[None]

    def grouped(self, compared: int, seed: int) -> tuple[Ints, float, float]:
        """Return (labels, processor seconds, peak of memory in MB) with so many reports compared with one another."""
        tracemalloc.start()
        began = time.process_time()
        with patch.object(clustering, "COMPARED", compared):
            found = discover(self.reports, self.known, self.public_set, count=None, seed=seed)
        took, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        labels = np.empty(len(self.reports), np.int64)
        for number, group in enumerate(found.groups):
            labels[list(group.members)] = number
        return labels, took, peak / 1e6


def run_many(reports: int, seeds: range, exact: bool) -> list[dict[str, Any]]:
    """Measure every case; ``exact`` compares with all pairs too, whose cost grows with the square."""
    rows = []
    for sounds, scatter in _CASES:
        found: list[dict[str, float]] = []
        for seed in seeds:
            fleet = Fleet(reports, sounds, scatter, seed)
            labels, cpu_s, peak_mb = fleet.grouped(clustering.COMPARED, seed)
            row = {"index": adjusted_rand_score(fleet.truth, labels), "groups": float(labels.max() + 1)}
            row |= {"cpu_s": cpu_s, "peak_mb": peak_mb}
            if exact:
                all_pairs, exact_s, exact_mb = fleet.grouped(reports, seed)
                row["exact_index"] = adjusted_rand_score(fleet.truth, all_pairs)
                row |= {"agreement": adjusted_rand_score(all_pairs, labels), "exact_cpu_s": exact_s}
                row |= {"exact_groups": float(all_pairs.max() + 1), "exact_peak_mb": exact_mb}
            found.append(row)
        means = {name: float(np.mean([row[name] for row in found])) for name in found[0]}
        rows.append({"reports": reports, "sounds": sounds, "scatter": scatter, "seeds": len(found)} | means)
    return rows
