"""Whether a device can change to its fleet's front end, when the aggregator asks for it (docs/updating.md).

The aggregator names a ready bundle and the digest of its features. The bundle is this release's own: nothing is
downloaded. The board must have the memory, and be fast enough to listen with it.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from edge_client.config import Config
from edge_client.detection.pace import pace_of
from edge_client.errors import CannotFollowError
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import WantedFrontEnd
from fleet_protocol.ready_bundles import find_bundle, ready_names

# Memory that has to be free: a training on the largest ready front end needs less.
_LEAST_MB = 64
_LARGEST_SHARE = 0.5
_TIMED = 3
_MEMORY = Path("/proc/meminfo")


def bundle_to_follow(
    config: Config, wanted: WantedFrontEnd, memory: Path = _MEMORY, largest_share: float = _LARGEST_SHARE
) -> str:
    """Return the name of the ready bundle with the fleet's front end; "" where the configured bundle has it.

    Args:
        memory: what the kernel says of the memory, as ``/proc/meminfo``.
        largest_share: of the time between two windows that one window may take; the rest is for other work.

    Raises CannotFollowError, which says why not without any word of the owner's.
    """
    if config.server is None or not config.server.follow_front_end:
        raise CannotFollowError("its owner keeps its front end ([server] follow_front_end = false)")
    if read_bundle(config.model.bundle).manifest.feature_settings.digest == wanted.features:
        return ""
    if wanted.bundle not in ready_names():
        raise CannotFollowError(f"its release has no bundle {wanted.bundle}; update its software")
    settings = read_bundle(find_bundle(wanted.bundle)).manifest.feature_settings
    if settings.digest != wanted.features:
        raise CannotFollowError(f"its release has another front end under {wanted.bundle}; update its software")
    present = read_bundle(config.bundle).manifest.feature_settings
    if settings.sample_rate_hz != present.sample_rate_hz:
        raise CannotFollowError(f"{wanted.bundle} hears at {settings.sample_rate_hz} Hz; set [model] bundle by hand")
    free = _free_mb(memory)
    if free is not None and free < _LEAST_MB:
        raise CannotFollowError(f"{free:.0f} MB of its memory are free, and {wanted.bundle} needs {_LEAST_MB}")
    if config.microphone is not None:
        _require_speed(config, wanted.bundle, settings, largest_share)
    return wanted.bundle


def _require_speed(config: Config, name: str, settings: FeatureSettings, largest_share: float) -> None:
    """Check that this processor computes a window in part of the time until the next one."""
    front_end, window = open_front_end(settings), np.zeros(settings.clip_samples, np.float32)
    taken = []
    for _ in range(_TIMED):
        begin = time.thread_time()  # of this thread alone: other programs may be busy
        front_end(window)
        taken.append(time.thread_time() - begin)
    share = min(taken) / pace_of(config.detector, settings).hop_s
    if share > largest_share:
        raise CannotFollowError(f"its processor is too slow for {name}: it would take {share:.0%} of the time")


def _free_mb(memory: Path) -> float | None:
    try:
        lines = memory.read_text().splitlines()
    except OSError:  # a system without it
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) / 1024 if found else None
