"""Variants of log-mel pictures: moved, stretched, spoken by another throat, in noise, partly hidden.

What a waveform's picture would show is computed on powers: sound and noise add there. Masks: Park et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Array, Floats
from model_export.pretraining.pictures import BANDS, FLOOR, FRAMES

_LOG_FLOOR = np.float32(np.log(FLOOR))
_NEPERS = np.float32(np.log(10) / 10)  # of a decibel of power
_MEAN, _SCALE = np.float32(6.0), np.float32(0.2)


@dataclass(frozen=True)
class Augmentation:
    """How much the pictures vary.

    Attributes:
        shift_frames: largest move in time, frames of 10 ms.
        stretch: slowest and fastest pace, as a share of the original's.
        warp: how much higher or lower all bands may lie.
        gain_db: quietest and loudest level against the original's, dB.
        noise: share of the clips that get noise.
        snr_db: smallest and largest distance of sound and noise, dB of power.
        masks: hidden stretches of time, and of bands, each.
        mask_frames: longest hidden stretch, frames.
        mask_bands: broadest hidden stretch, bands.
    """

    shift_frames: int = 20
    stretch: tuple[float, float] = (0.87, 1.15)
    warp: tuple[float, float] = (0.86, 1.16)
    gain_db: tuple[float, float] = (-13.0, 10.0)
    noise: float = 0.8
    snr_db: tuple[float, float] = (-2.0, 30.0)
    masks: int = 1
    mask_frames: int = 16
    mask_bands: int = 6


def normalised(log_power: Array) -> Floats:
    """Return the network's input, (x + 6) / 5, float32 of the same shape."""
    return np.asarray((log_power + _MEAN) * _SCALE, np.float32)


def augment(log_power: Floats, noise: Floats, settings: Augmentation, rng: np.random.Generator) -> Floats:
    """Return variants of clips, float32 [clips, 98, 40], before :func:`normalised`.

    Args:
        log_power: ln(power + 1e-6), float32 [clips, 98, 40].
        noise: the same of noises, one for each clip.
        settings: how much they vary.
        rng: draws everything.
    """
    moved = _resampled(log_power, settings, rng)
    noise = _rolled(noise, rng)
    power = np.exp(moved) * np.exp(_NEPERS * _draw(settings.gain_db, len(moved), rng))
    noise_power = np.exp(noise)
    wanted = power.mean((1, 2), keepdims=True) * np.exp(-_NEPERS * _draw(settings.snr_db, len(moved), rng))
    level = wanted / noise_power.mean((1, 2), keepdims=True)
    level *= rng.random((len(moved), 1, 1)) < settings.noise
    power += noise_power * level.astype(np.float32)
    varied: Floats = np.log(power + FLOOR)
    return _masked(varied, settings, rng)


def coloured_noise(count: int, rng: np.random.Generator) -> Floats:
    """Return ln(power + 1e-6) of steady noises of random colour and level, float32 [count, 98, 40].

    A band's power in a frame is that of a sum of a few independent bins, and so scatters as a gamma variable does.
    """
    bands = np.arange(BANDS, dtype=np.float32) / BANDS - 0.5
    tilt = rng.uniform(-5, 1.5, (count, 1, 1)).astype(np.float32) * bands
    bumps = np.cumsum(rng.normal(0, 0.25, (count, 1, BANDS)), axis=2).astype(np.float32)
    level = rng.uniform(-11, 3, (count, 1, 1)).astype(np.float32)
    bins = 1.5 + 5 * np.arange(BANDS, dtype=np.float32) / BANDS
    scatter = rng.standard_gamma(bins, (count, FRAMES, BANDS), dtype=np.float32) / bins
    return np.asarray(np.log(np.exp(tilt + bumps + level) * scatter + FLOOR), np.float32)


def _rolled(noise: Floats, rng: np.random.Generator) -> Floats:
    """Let noises begin somewhere else."""
    rows = (np.arange(FRAMES) + rng.integers(FRAMES, size=(len(noise), 1))) % FRAMES
    return np.asarray(noise[np.arange(len(noise))[:, None], rows], np.float32)


def _draw(bounds: tuple[float, float], count: int, rng: np.random.Generator) -> Floats:
    return rng.uniform(*bounds, (count, 1, 1)).astype(np.float32)


def _resampled(log_power: Floats, settings: Augmentation, rng: np.random.Generator) -> Floats:
    """Move and stretch in time, warp the bands; what comes in from outside is the edge, or silence in every other."""
    count = len(log_power)
    centre = (FRAMES - 1) / 2
    shift = rng.integers(-settings.shift_frames, settings.shift_frames + 1, (count, 1))
    times = (np.arange(FRAMES) - centre - shift) * _draw(settings.stretch, count, rng)[..., 0] + centre
    times = np.where(rng.random((count, 1)) < 0.5, np.clip(times, 0, FRAMES - 1), times)
    bands = np.clip((np.arange(BANDS) + 0.5) * _draw(settings.warp, count, rng)[..., 0] - 0.5, 0, BANDS - 1)
    raised = _interpolation(times, FRAMES) @ (log_power - _LOG_FLOOR) @ _interpolation(bands, BANDS).transpose(0, 2, 1)
    return np.asarray(raised + _LOG_FLOOR, np.float32)


def _interpolation(places: Array, size: int) -> Floats:
    """Return matrices [clips, places, size] that read linearly between neighbours, and 0 outside."""
    distance = np.abs(places.astype(np.float32)[..., None] - np.arange(size, dtype=np.float32))
    return np.asarray(np.maximum(0, 1 - distance), np.float32)


def _masked(log_power: Floats, settings: Augmentation, rng: np.random.Generator) -> Floats:
    """Hide stretches of time and of bands behind the clip's mean."""
    count = len(log_power)
    hidden = np.zeros(log_power.shape, bool)
    for _ in range(settings.masks):
        hidden |= _stretches(count, FRAMES, settings.mask_frames, rng)[:, :, None]
        hidden |= _stretches(count, BANDS, settings.mask_bands, rng)[:, None, :]
    return np.where(hidden, log_power.mean((1, 2), keepdims=True), log_power)


def _stretches(count: int, size: int, longest: int, rng: np.random.Generator) -> Array:
    """Return boolean [count, size], true within one stretch of each row."""
    length = rng.integers(0, longest + 1, (count, 1))
    start = rng.integers(0, size - length + 1)
    place = np.arange(size)
    return np.asarray((place >= start) & (place < start + length))
