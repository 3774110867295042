"""What a device hears when nothing in particular sounds: the room that it stands in, and noise in general."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from edge_client.clips.labels import BACKGROUND
from edge_client.config import Config
from edge_client.errors import RecordingError
from edge_client.features.augmentation import BackgroundNoise
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings

log = logging.getLogger(__name__)

# Windows of the room, and as many of artificial noise, of one incremental task.
QUIET_ROWS = 400
# Artificial noise: levels in dB full scale, and how its amplitude falls with frequency (white to brown).
_LEVELS_DB = (-75.0, -15.0)
_SLOPES = (0.0, 1.2)


def rooms(config: Config, settings: FeatureSettings) -> tuple[Floats, ...]:
    """Return what tells of the room: what ``record`` heard before the takes, and [recordings] background.

    Raises:
        RecordingError: [recordings] background holds no recording that can be used.
    """
    rate_hz, folder = settings.sample_rate_hz, config.recordings.background
    given = BackgroundNoise.load(folder, rate_hz).recordings if folder is not None and folder.is_dir() else ()
    return (*_recorded(config.clips_folder / BACKGROUND, rate_hz), *given)


def _recorded(folder: Path, rate_hz: int) -> tuple[Floats, ...]:
    try:
        return BackgroundNoise.load(folder, rate_hz).recordings if folder.is_dir() else ()
    except RecordingError as error:  # all are damaged: each was named, and the owner's teaching must go on
        log.warning("%s", error)
        return ()


def windows(
    recordings: tuple[Floats, ...], settings: FeatureSettings, rng: np.random.Generator, count: int = QUIET_ROWS
) -> Floats:
    """Draw clip-long stretches of the room at several volumes: float32 [count, clip_samples]; none without a room."""
    length = settings.clip_samples
    rows = np.empty((count if recordings else 0, length), np.float32)
    for row in rows:
        room = recordings[rng.integers(len(recordings))]
        start = rng.integers(max(1, len(room) - length + 1))
        row[:] = np.resize(room[start : start + length], length) * rng.uniform(0.1, 1.0)
    return rows


def artificial_noise(count: int, settings: FeatureSettings, rng: np.random.Generator) -> Floats:
    """Return clips of noise, white to brown, from nearly silent to loud: float32 [count, clip_samples]."""
    length = settings.clip_samples
    frequency = np.maximum(np.fft.rfftfreq(length), 1 / length)
    clips = np.empty((count, length), np.float32)
    for clip in clips:
        spectrum = rng.normal(size=len(frequency)) + 1j * rng.normal(size=len(frequency))
        noise = np.fft.irfft(spectrum * frequency ** -rng.uniform(*_SLOPES), length)
        clip[:] = noise / np.sqrt(np.mean(noise**2)) * 10 ** (rng.uniform(*_LEVELS_DB) / 20)
    return np.clip(clips, -1.0, 1.0, out=clips)
