"""How often a detector looks at a stream, and over which time it averages scores, where the owner does not say it.

Everyday sounds last longer than words, and their network costs more. On synthesised sounds that were taught by five
sources each and heard from others, at 10 dB and one false accept an hour for each label, a mean over 1 s, two windows,
missed 34 % (`sounds`) and 44 % (`sounds_2s`), a single window 69 and 57 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_client.config.sections import DetectorConfig
from edge_client.features.front_end import hop_frames
from fleet_protocol.bundle.feature_settings import FeatureSettings


@dataclass(frozen=True)
class Pace:
    """Time between two windows, in whole frames and at most a clip, and time over which scores are averaged."""

    hop_frames: int
    hop_samples: int
    hop_s: float
    average_s: float


_WORDS, _SOUNDS = (0.25, 0.5), (0.5, 1.0)


def pace_of(config: DetectorConfig, settings: FeatureSettings) -> Pace:
    """Return the pace of a detector on a front end."""
    hop_s, average_s = _SOUNDS if settings.hears_sounds else _WORDS
    frames = hop_frames(settings, hop_s if config.hop_s is None else config.hop_s)
    samples = min(frames * settings.hop_samples, settings.clip_samples)
    average_s = average_s if config.average_s is None else config.average_s
    return Pace(frames, samples, samples / settings.sample_rate_hz, average_s)
