"""The live feed's share of listening: processor time of a hop, with and without somebody who watches.

A listening loop's work is done hop by hop on noise that is loud enough to be classified: the detector alone, the look
for watchers where there is none, and the message where there is one. Medians of the thread's processor time.
"""

from __future__ import annotations

import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.command import Command, said
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Detector
from edge_client.live.feed import LiveFeed, LiveReader
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import FIRST_CHOICE, find_bundle

_HOPS = 400
_LABELS = 8


def measure() -> dict[str, float]:
    """Return what a hop costs with the ready bundle that is the first choice, and eight labels.

    Returns:
        Processor time in microseconds: ``detector_us``, of features, network and decisions; ``unwatched_us``, of the
        look for watchers where there is none; ``watched_us``, of the spectrum and the message with one watcher; and
        ``bytes`` of a message.
    """
    model = ModelRuntime.open(find_bundle(FIRST_CHOICE))
    manifest = model.manifest
    label_map = LabelMap(manifest.capacity, reserved=len(manifest.background))
    for number in range(_LABELS):
        label_map = label_map.add(f"sound {number}")
    detector = Detector(model, label_map, DetectorConfig())
    rng = np.random.default_rng(0)
    hops = rng.normal(scale=0.05, size=(_HOPS, detector.hop_samples)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        feed = LiveFeed(Path(folder), detector.sample_rate_hz)
        listening = [_microseconds(functools.partial(detector.push, hop)) for hop in hops]
        looking = [_microseconds(feed.watched) for _ in hops]
        reader = LiveReader(Path(folder))
        reader.read(0.01)
        watched, size = [], 0

        def show(hop: Floats) -> None:
            """Do what the listening loop does after a hop."""
            if feed.watched():
                feed.send(hop, detector.standing, [])

        for hop in hops:
            watched.append(_microseconds(functools.partial(show, hop)))
            moment = reader.read(1.0)
            size = len(moment.encode()) if moment is not None else size
        reader.close()
        feed.close()
    detector_us, unwatched_us, watched_us = (
        round(statistics.median(times), 1) for times in (listening, looking, watched)
    )
    return {"detector_us": detector_us, "unwatched_us": unwatched_us, "watched_us": watched_us, "bytes": size}


def _microseconds(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return 1e6 * (time.thread_time() - begin)


def main() -> int:
    """Measure and print."""
    return Command("benchmarks.live", __doc__).run(lambda _: said(measure()))


if __name__ == "__main__":
    sys.exit(main())
