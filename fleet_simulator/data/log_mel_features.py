"""Features of log-mel pictures, with noise and in variants, standardised over all clips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import Manifest
from fleet_simulator.data.log_mel_archive import features_of_power, pictures, read_pictures
from fleet_simulator.data.log_mel_noise import varied, with_white_noise
from fleet_simulator.data.recording_layouts import BACKGROUNDS, Entry
from fleet_simulator.experiment.data_section import DataSection
from model_export.pretraining.pictures import mel_power

_CHUNK = 1024  # pictures taken at a time


def picture_features(
    data: DataSection, entries: Sequence[Entry], manifest: Manifest, seed: int
) -> tuple[Floats, Floats | None]:
    """Return features of pictures, float32 [clips, frames, coefficients], and what devices have instead.

    That is float32 [clips, 1 + variants, frames, coefficients], on the same scale; None: the same.

    Raises:
        CorpusError: a picture cannot be read.
    """
    assert data.path is not None
    settings = manifest.feature_settings
    pixels = read_pictures(data.path, entries)
    noise = [entry for entry in pictures(data.path) if entry.label in BACKGROUNDS] if data.variants else []
    backgrounds = mel_power(read_pictures(data.path, noise))
    x = np.empty((len(pixels), *settings.shape), np.float32)
    trained = np.empty((len(pixels), 1 + data.variants, *settings.shape), np.float32) if data.changed else None
    for start in range(0, len(x), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        power = mel_power(pixels[chunk])
        x[chunk] = features_of_power(power, settings)
        if trained is not None:
            heard = [
                _heard(clip, data, backgrounds, np.random.default_rng([seed, 9, row]))
                for row, clip in enumerate(power, start)
            ]
            trained[chunk] = features_of_power(np.concatenate(heard), settings).reshape(trained[chunk].shape)
    mean, std = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
    if trained is not None:
        trained -= mean
        trained /= std
    x -= mean  # in place: a whole archive fills half a gigabyte
    x /= std
    return x, trained


def _heard(power: Floats, data: DataSection, backgrounds: Floats, rng: np.random.Generator) -> Floats:
    """Return what a device has of a picture, mel powers float32 [1 + variants, 98, bands]."""
    if np.isfinite(data.snr_db):
        power = with_white_noise(power, data.snr_db, rng)
    return np.stack([power, *(varied(power, backgrounds, rng) for _ in range(data.variants))])
