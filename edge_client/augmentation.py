"""Clips made different from one another while training, so that a small model learns the sound and not the recording.

Time shift and background noise as in FedKWS-UI (Li et al. 2022, section 5): +-100 ms, volume 0.1, probability 0.8.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.capture.recordings import SUFFIXES, read_recording
from edge_client.errors import RecordingError

SHIFT_S = 0.1
NOISE_VOLUME = 0.1
NOISE_PROBABILITY = 0.8

Floats = NDArray[np.float32]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BackgroundNoise:
    """Long recordings of backgrounds, each float32 [samples] at the clips' rate."""

    recordings: tuple[Floats, ...]

    @classmethod
    def load(cls, folder: Path, sample_rate_hz: int) -> BackgroundNoise:
        """Read the recordings that lie in a folder (the first minute of each); damaged ones are logged and left out.

        Raises:
            RecordingError: the folder holds none that can be used.
        """
        recordings = []
        for path in sorted(folder.glob("*")):
            if path.suffix.lower() in SUFFIXES:
                try:
                    recordings.append(read_recording(path, sample_rate_hz))
                except RecordingError as error:
                    _log.warning("left out a background recording: %s", error)
        if not recordings:
            raise RecordingError(f"no background recordings in {folder}; put .wav, .flac or .ogg files there")
        return cls(tuple(recordings))


def augment(
    clips: Floats, sample_rate_hz: int, rng: np.random.Generator, noise: BackgroundNoise | None = None
) -> Floats:
    """Return changed copies of clips, float32 [clips, samples]: shifted in time and, where noise is given, noisy."""
    shifted = time_shift(clips, round(SHIFT_S * sample_rate_hz), rng)
    return shifted if noise is None else mix_noise(shifted, noise, rng)


def time_shift(clips: Floats, largest: int, rng: np.random.Generator) -> Floats:
    """Return clips, each moved by its own whole number of samples in -largest..largest; silence moves in.

    Args:
        clips: float32 [clips, samples].
        largest: samples, below the clips' length.
        rng: draws the shifts.
    """
    shifted = np.zeros_like(clips)
    length = clips.shape[1]
    for row, by in enumerate(rng.integers(-largest, largest + 1, size=len(clips))):
        shifted[row, max(0, by) : length + min(0, by)] = clips[row, max(0, -by) : length - max(0, by)]
    return shifted


def mix_noise(
    clips: Floats,
    noise: BackgroundNoise,
    rng: np.random.Generator,
    volume: float = NOISE_VOLUME,
    probability: float = NOISE_PROBABILITY,
) -> Floats:
    """Return clips to which, each with some probability, a random stretch of a random background was added.

    Args:
        clips: float32 [clips, samples].
        noise: backgrounds; one shorter than a clip is repeated.
        rng: draws clips, backgrounds and stretches.
        volume: factor on the background.
        probability: of a clip to get any, 0..1.

    Returns:
        float32 [clips, samples] in -1..1.
    """
    mixed = clips.copy()
    length = clips.shape[1]
    for row in np.flatnonzero(rng.random(len(clips)) < probability):
        background = noise.recordings[rng.integers(len(noise.recordings))]
        start = rng.integers(max(1, len(background) - length + 1))
        mixed[row] += volume * np.resize(background[start : start + length], length)
    return np.clip(mixed, -1.0, 1.0, out=mixed)
