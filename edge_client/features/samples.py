"""What every front end refuses: samples and settings from which no features can be computed."""

import math
from collections.abc import Callable

import numpy as np

from edge_client.errors import FeatureError
from fleet_protocol.bundle.feature_settings import HTK, KALDI_32K, EmbeddingSettings, MelSettings
from fleet_protocol.numbers.arrays import Array, Floats


def require_samples(samples: Array) -> Array:
    """Return finite floating-point samples of rank 1 or 2. Raises FeatureError if they are anything else, or none."""
    samples = np.asarray(samples)
    if samples.dtype.kind in "iu":
        half = 1 << (8 * samples.dtype.itemsize - 1)
        recipe = "samples.astype(numpy.float32)" if samples.dtype.kind == "i" else f"(samples.astype(float) - {half})"
        raise FeatureError(f"samples are {samples.dtype}, but must be floats in -1..1: convert by {recipe} / {half}")
    if samples.dtype.kind != "f":
        raise FeatureError(f"samples are {samples.dtype}, but must be float32 in -1..1")
    if samples.ndim not in (1, 2) or not samples.shape[-1]:
        raise FeatureError(f"samples have shape {samples.shape}, but must be [samples] or [clips, samples], not empty")
    if not np.isfinite(samples).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(samples))[0])
        raise FeatureError(f"sample {where} is {samples[where]}; every sample must be finite: leave this clip out")
    return samples if samples.dtype.itemsize >= 4 else samples.astype(np.float32)


def of_each_clip(samples: Array, shape: tuple[int, ...], compute: Callable[[Array], Array]) -> Floats:
    """Compute the features of one clip or of many, float32 [*shape] or [clips, *shape]. Raises FeatureError."""
    samples = require_samples(samples)
    clips = np.atleast_2d(samples)
    features = np.empty((len(clips), *shape), np.float32)
    for clip, into in zip(clips, features, strict=True):
        into[...] = compute(clip)
    return features.reshape(*samples.shape[:-1], *shape)


def require_consistent(settings: MelSettings, numbers: int) -> None:
    """Refuse settings that give no features of so many numbers a frame, by a FeatureError that says why."""
    nyquist = settings.sample_rate_hz / 2
    filters = getattr(settings, "filters", HTK)
    highest = math.inf if filters == KALDI_32K else nyquist  # bands above half the sample rate are empty
    counts = (settings.clip_samples, settings.window_samples, settings.hop_samples, settings.frames, numbers)
    problems = {
        "every length and count must be positive": min(counts) < 1,
        f"the FFT must hold a window of {settings.window_samples} samples": settings.fft_size < settings.window_samples,
        f"0 <= low_hz < high_hz <= {highest:g} must hold": not 0 <= settings.low_hz < settings.high_hz <= highest,
        f"filters must be {HTK} or {KALDI_32K}": filters not in (HTK, KALDI_32K),
        "there cannot be more coefficients than mel bands": numbers > settings.mel_bands,
    }
    for rule, broken in problems.items():
        if broken:
            raise FeatureError(f"feature settings contradict themselves: {rule}; given {settings.describe()}")


def require_network(settings: EmbeddingSettings) -> bytes:
    """Return the front end's network. Raises FeatureError if only its digest is known here."""
    if not settings.network.data:
        raise FeatureError(
            f"these features need the network {settings.network.sha256[:16]}, of which only the digest is known "
            "here; take the settings from a bundle that was built with it"
        )
    return settings.network.data
