"""Devices of one front end hear one stream: the features of its windows are made once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from benchmarks.listening.measurement import Listened, averaged, listen
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Loaded
from edge_client.detection.pace import pace_of
from edge_client.detection.scores import Scorer, earlier_of, windows_before
from fleet_protocol.arrays import Floats


def listen_for_all(one: Loaded, parts: Iterable[Floats], config: DetectorConfig) -> Callable[[Loaded], Listened]:
    """Let one device, which has labels, listen to a stream, given in parts at ``RATE_HZ``.

    Return what says what the detector of each other device makes of the stream, averaged as it does.
    """
    rows: list[Floats | None] = []  # None of a window too quiet
    by = listen(replace(one, look=lambda features, *_: rows.append(features)), parts, config)
    loud, features = [row is not None for row in rows], np.stack([row for row in rows if row is not None])

    def of(loaded: Loaded) -> Listened:
        scorer = Scorer(loaded.model, loaded.label_map, loaded.prototypes, loaded.known)
        scores = np.zeros((len(rows), scorer.labels), np.float32)
        pace = pace_of(config, loaded.model.manifest.feature_settings)
        all_rows = np.full((len(rows), *features.shape[1:]), np.nan, np.float32)
        all_rows[loud] = features
        earlier = earlier_of(all_rows[:, 0], windows_before(pace.hop_s), scorer.states)[:, :, None]
        scores[loud] = scorer(features, earlier[:, loud])
        means, over = averaged(scores, by.at_s, pace.average_s), dict.fromkeys(loaded.lasting, config.over_after_s)
        return replace(by, labels=loaded.label_map.names, heard=(), scores=means, over_after_s=over)

    return of
