"""Features of recordings: cut into clips, with noise, and in variants, as a device that has them would compute them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import loudest_stretch, read_recording
from edge_client.errors import RecordingError
from edge_client.features.augmentation import BackgroundNoise, augment
from edge_client.features.front_end import open_front_end
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import Manifest
from fleet_protocol.feature_settings import FeatureSettings
from fleet_simulator.data.recording_layouts import Entry
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.sections import DataSection


def recording_features(
    data: DataSection, entries: Sequence[Entry], manifest: Manifest, seed: int
) -> tuple[Floats, Floats | None]:
    """Return normalised features of recordings, float32 [clips, frames, coefficients], and what devices have instead.

    That is float32 [clips, 1 + variants, frames, coefficients]; None: the same. Of every recording there are
    ``data.windows`` clips, one after another.
    """
    settings = manifest.feature_settings
    front_end, mean, std = open_front_end(settings), np.asarray(manifest.mean), np.asarray(manifest.std)
    x = np.empty((len(entries), data.windows, *settings.shape), np.float32)
    trained = np.empty((*x.shape[:2], 1 + data.variants, *settings.shape), np.float32) if data.changed else None
    try:
        background = BackgroundNoise.load(data.background, settings.sample_rate_hz) if data.background else None
        read = functools.lru_cache(maxsize=1)(read_recording)  # seconds of one long recording follow one another
        for row, entry in enumerate(entries):
            samples = read(Path(entry.path), settings.sample_rate_hz)
            if entry.second is not None:
                samples = samples[entry.second * settings.sample_rate_hz :][: settings.clip_samples]
            x[row] = (front_end(clips_of(samples, data.windows, settings)) - mean) / std
            if trained is not None:
                heard = _heard(samples, data, settings, background, np.random.default_rng([seed, 9, row]))
                trained[row] = (front_end(heard.reshape(-1, heard.shape[-1])).reshape(trained[row].shape) - mean) / std
    except RecordingError as error:
        raise CorpusError(f"{error}; a simulation uses every clip that is there") from error
    return x.reshape(-1, *settings.shape), None if trained is None else trained.reshape(-1, *trained.shape[2:])


def _heard(
    samples: Floats,
    data: DataSection,
    settings: FeatureSettings,
    background: BackgroundNoise | None,
    rng: np.random.Generator,
) -> Floats:
    """Return what a device has of a recording, float32 [windows, 1 + variants, clip_samples]."""
    if np.isfinite(data.snr_db):
        samples = with_white_noise(samples, data.snr_db, rng)
    clips = clips_of(samples, data.windows, settings)
    copies = (augment(clips, settings.sample_rate_hz, rng, background) for _ in range(data.variants))
    return np.stack([clips, *copies], axis=1)


def clips_of(samples: Floats, windows: int, settings: FeatureSettings) -> Floats:
    """Cut a recording into clips, float32 [windows, clip_samples].

    One is the loudest stretch, as a device takes it; more lie equally far from one another, the first at the start and
    the last at the end. What is missing of a shorter recording is silence.
    """
    length = settings.clip_samples
    if windows == 1:
        samples = loudest_stretch(samples, settings)
    samples = np.pad(samples, (0, max(0, length - len(samples))))
    starts = np.linspace(0, len(samples) - length, windows).round().astype(int)
    return np.stack([samples[start : start + length] for start in starts])


def with_white_noise(samples: Floats, snr_db: float, rng: np.random.Generator) -> Floats:
    """Return a recording with white Gaussian noise whose power is ``snr_db`` below the recording's mean power."""
    level = np.sqrt(np.mean(np.square(samples, dtype=np.float64)) * 10 ** (-snr_db / 10))
    return samples + np.float32(level) * rng.standard_normal(len(samples), np.float32)
