"""Variants of log-mel pictures, drawn by JAX wherever it works: on processors or on an accelerator.

A variant is moved, stretched, spoken by another throat, through another microphone, in a room, in noise or before other
talkers, partly hidden (masks: Park et al. 2019). What a waveform's picture would show is computed on powers, in which
sound and noise add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import erfinv

from model_export.pretraining.pictures import FLOOR

NEPERS = float(np.log(10) / 10)  # of a decibel of power
_LOG_FLOOR = float(np.log(FLOOR))
_COLOUR_DB, _CURVES = 1.75, 4  # of a microphone: standard deviation of each of some slow cosines over the bands
_FALL_S, _DIRECT_DB = (0.12, 0.9), (-3.0, 14.0)  # a room's reverberation time; direct against reverberant sound
_DECAY = 13.8 * 0.01  # nepers of power that are lost in 10 ms, times the reverberation time in seconds: 60 dB

_DRAWS = 128  # numbers that a clip takes, at most

_Range = tuple[float, float]


@dataclass(frozen=True)
class Augmentation:
    """How much the pictures vary."""

    shift_frames: int = 20  # largest move in time, frames of 10 ms
    stretch: _Range = (0.87, 1.15)  # slowest and fastest pace, as a share of the original's
    warp: _Range = (0.86, 1.16)  # how much higher or lower all bands may lie
    gain_db: _Range = (-13.0, 10.0)  # quietest and loudest level against the original's, dB
    noise: float = 0.8  # share of the clips that get noise
    snr_db: _Range = (-2.0, 30.0)  # smallest and largest distance of sound and noise, dB of power
    recorded: float = 0.7  # share of the noises that are recorded, where the corpus has any
    microphones: float = 0.0  # share of the clips that another microphone colours
    rooms: float = 0.0  # share of the clips that get late reverberation
    second_noise: float = 0.0  # share of the noises that are two
    talk: float = 0.0  # share of the noises that are one to four people
    cut: float = 0.0  # share of the recordings whose bands above 4 kHz are hidden, as those of all pictures are
    sources: int = 0  # synthesised sounds of a household and a street among the noises, one of each source
    masks: float = 1.0  # share of the clips of which a stretch of time and one of bands are hidden
    mask_frames: int = 16  # longest hidden stretch, frames
    mask_bands: int = 6  # broadest hidden stretch, bands


WORDS = Augmentation(
    stretch=(0.85, 1.18),
    warp=(0.85, 1.17),
    gain_db=(-16.0, 11.0),
    noise=0.87,
    snr_db=(-4.0, 28.0),
    recorded=0.4,
    microphones=0.45,
    rooms=0.4,
    second_noise=0.25,
    talk=0.22,
    sources=1024,
    masks=0.75,
    mask_bands=7,
)
"""That of `words`."""
SEPARABLE = replace(WORDS, cut=0.5)
"""That of `separable`."""


class Draws:
    """Random numbers for clips: each call draws anew, in the order of the calls."""

    def __init__(self, key: jax.Array, clips: int) -> None:
        """Begin with a key of JAX. All is drawn at once: to compile many small draws takes as long as the rest."""
        self.clips, self._used = clips, 0
        self._numbers = random.uniform(key, (clips, _DRAWS), jnp.float32)

    def uniform(self, bounds: _Range, *shape: int) -> jax.Array:
        """Return float32 [clips, *shape] between two bounds."""
        begin, self._used = self._used, self._used + math.prod(shape)
        low, high = bounds
        return (low + (high - low) * self._numbers[:, begin : self._used]).reshape(self.clips, *shape)

    def normal(self, *shape: int) -> jax.Array:
        """Return float32 [clips, *shape] of mean 0 and variance 1."""
        return math.sqrt(2) * erfinv(self.uniform((-1 + 1e-6, 1.0), *shape))

    def below(self, limit: jax.Array | int, *shape: int) -> jax.Array:
        """Return int32 [clips, *shape], at least 0 and below limits of a shape that fits."""
        numbers = jnp.floor(self.uniform((0.0, 1.0), *shape) * limit).astype(jnp.int32)
        return jnp.clip(numbers, 0, jnp.asarray(limit) - 1)  # a product can be rounded up to the limit

    def happens(self, share: float, *shape: int) -> jax.Array:
        """Return boolean [clips, *shape], true with a probability."""
        happens: jax.Array = self.uniform((0.0, 1.0), *shape) < share
        return happens


def augment(
    log_power: jax.Array, noise: jax.Array, settings: Augmentation, draws: Draws, quieter_db: jax.Array | float = 0.0
) -> tuple[jax.Array, jax.Array]:
    """Return variants of clips, ln(power + 1e-6), float32 [clips, frames, bands], and where each frame was before.

    That is a place between a clip's frames, or outside, float32 [clips, frames].
    ``noise``: the same of noises, one for each clip; ``quieter_db``: by how much each is quieter than is drawn, dB.
    """
    resampled, times = _resampled(log_power, settings, draws)
    power = jnp.exp(resampled)
    if settings.microphones:
        power *= _responses(power.shape[2], settings.microphones, draws)
    if settings.rooms:
        power = _reverberant(power, settings.rooms, draws)
    level = jnp.exp(-NEPERS * (draws.uniform(settings.snr_db) + quieter_db)) * draws.happens(settings.noise)
    frames = noise.shape[1]
    rows = (jnp.arange(frames) + draws.below(frames, 1)) % frames  # a noise begins somewhere else
    power += even(jnp.take_along_axis(noise, rows[:, :, None], 1)) * (level * power.mean((1, 2)))[:, None, None]
    varied = jnp.log(power * jnp.exp(NEPERS * draws.uniform(settings.gain_db, 1, 1)) + FLOOR)
    return _masked(varied, settings, draws) if settings.masks else varied, times


def even(log_power: jax.Array) -> jax.Array:
    """Return powers, each clip's mean 1, float32 of the same shape [.., frames, bands]."""
    power = jnp.exp(log_power)
    return power / power.mean((-2, -1), keepdims=True)


def _resampled(log_power: jax.Array, settings: Augmentation, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Move and stretch in time, warp the bands; what comes in from outside is the edge, or silence in every other."""
    _, frames, bands = log_power.shape
    centre = (frames - 1) / 2
    shift = draws.below(2 * settings.shift_frames + 1, 1) - settings.shift_frames
    times = (jnp.arange(frames) - centre - shift) * draws.uniform(settings.stretch, 1) + centre
    read = jnp.where(draws.happens(0.5, 1), jnp.clip(times, 0, frames - 1), times)
    places = jnp.clip((jnp.arange(bands) + 0.5) * draws.uniform(settings.warp, 1) - 0.5, 0, bands - 1)
    raised = _interpolation(read, frames) @ (log_power - _LOG_FLOOR)
    return raised @ _interpolation(places, bands).transpose(0, 2, 1) + _LOG_FLOOR, times


def _interpolation(places: jax.Array, size: int) -> jax.Array:
    """Return matrices [clips, places, size] that read linearly between neighbours, and 0 outside."""
    return jnp.maximum(0.0, 1 - jnp.abs(places[..., None] - jnp.arange(size)))


def _responses(bands: int, share: float, draws: Draws) -> jax.Array:
    """Return microphones' responses in power, float32 [clips, 1, bands]: slow cosines over the bands."""
    places = np.pi * (np.arange(bands) + 0.5) / bands
    curves = jnp.asarray(np.cos(np.outer(np.arange(1, _CURVES + 1), places)) * _COLOUR_DB * NEPERS, jnp.float32)
    strengths = draws.normal(_CURVES) * draws.happens(share, 1)
    return jnp.exp(strengths @ curves)[:, None]


def _reverberant(power: jax.Array, share: float, draws: Draws) -> jax.Array:
    """Add a room's late sound, which falls off exponentially (Polack 1988), to a share of clips."""
    frames = jnp.arange(power.shape[1])
    log_fall = -_DECAY / draws.uniform(_FALL_S, 1, 1)
    late = jnp.exp(-NEPERS * draws.uniform(_DIRECT_DB, 1, 1)) * (jnp.exp(-log_fall) - 1) * draws.happens(share, 1, 1)
    past = frames[:, None] - frames
    tails = jnp.where(past > 0, jnp.exp(jnp.maximum(past, 0) * log_fall), 0.0)
    return power + late * (tails @ power)


def _masked(log_power: jax.Array, settings: Augmentation, draws: Draws) -> jax.Array:
    """Hide stretches of time and of bands behind the clip's mean."""
    _, frames, bands = log_power.shape
    hidden = _stretches(frames, settings.mask_frames, draws)[:, :, None]
    hidden |= _stretches(bands, settings.mask_bands, draws)[:, None, :]
    hidden &= draws.happens(settings.masks, 1, 1)
    return jnp.where(hidden, log_power.mean((1, 2), keepdims=True), log_power)


def _stretches(size: int, longest: int, draws: Draws) -> jax.Array:
    """Return boolean [clips, size], true within one stretch of each row."""
    length = draws.below(longest + 1, 1)
    start = draws.below(size - length + 1, 1)
    place = jnp.arange(size)
    return (place >= start) & (place < start + length)
