"""Finds sounds that rise above the background and that no label fits, so that their owner can name them.

A sound begins where the level rises above the noise floor, a low quantile of the last seconds' levels (after minimum
statistics, Martin 2001). It is unknown when no averaged score was high until its whole window had been classified. What
goes on after a clip may be a phrase, where a front end hears words: its end is awaited, and all of it is kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from edge_client.audio.recordings import BESIDE_S, PAUSE_S, longest_take_s
from edge_client.config.sections import DetectorConfig
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats

_FLOOR_S = 10.0
_FLOOR_QUANTILE = 0.25
_ROUNDING_S = 1e-6


@dataclass
class _Sound:
    """A sound that has begun and is not decided yet."""

    began_s: float
    loud_s: float  # until when it was loud
    best: float = 0.0
    window: Floats | None = None
    level_db: float = 0.0
    features: Floats | None = None


@dataclass(frozen=True)
class UnknownSound:
    """A sound that no label fits, with the samples from just before it on: a clip, or a phrase, float32 [samples].

    ``features``: of its first clip, float32 [frames, numbers]; None where none were computed.
    """

    window: Floats
    score: float
    level_db: float
    features: Floats | None = None


class UnknownSounds:
    """Follows levels and scores hop by hop; time is the stream's, in seconds."""

    def __init__(self, config: DetectorConfig, settings: FeatureSettings, hop_s: float, average_s: float) -> None:
        self._config = config
        self._settings = settings
        self._average_s = average_s
        self._clip_s, self._longest_s = settings.clip_s, longest_take_s(settings)
        self._hop_s = hop_s
        self._levels: deque[float] = deque(maxlen=max(2, round(_FLOOR_S / hop_s)))
        self._floor_db = 0.0
        self._loud = False
        self._sound: _Sound | None = None
        self._last_s = -np.inf

    @property
    def samples(self) -> int:
        """How many of the stream's newest samples :meth:`update` needs."""
        return round((self._longest_s + 2 * self._hop_s + PAUSE_S) * self._settings.sample_rate_hz)

    def forget(self) -> None:
        """Forget the sound that has begun: the stream stood still."""
        self._sound = None

    def update(
        self,
        at_s: float,
        hop_level_db: float,
        best: float,
        past: Floats,
        window_level_db: float,
        *,
        heard: bool,
        features: Floats | None = None,
    ) -> UnknownSound | None:
        """Take one hop, and whether a known sound was ``heard`` in it; return an unknown sound that it settles.

        ``past``: the stream's newest samples, float32 [at least ``samples``], at whose end the newest window stands.
        ``features`` of the window are kept with it.
        """
        began = self._begins(hop_level_db)
        if heard:
            self._sound = None
            return None
        if began and self._sound is None:
            self._sound = _Sound(at_s - self._hop_s, at_s)
        sound = self._sound
        if sound is None:
            return None
        sound.best = max(sound.best, best)
        if self._loud:
            sound.loud_s = at_s
        # The window then begins up to one hop before the sound.
        if sound.window is None and at_s - sound.began_s >= self._clip_s - self._hop_s - _ROUNDING_S:
            sound.window, sound.level_db, sound.features = self._copied(past, self._clip_s), window_level_db, features
        if at_s - sound.began_s < self._clip_s + self._average_s - _ROUNDING_S:
            return None
        length_s = sound.loud_s - sound.began_s
        if self._clip_s < length_s <= self._longest_s:  # what lasts longer is no phrase
            if at_s - sound.loud_s < PAUSE_S:
                return None
            sound.window = self._copied(past, at_s - sound.began_s + self._hop_s, at_s - sound.loud_s - BESIDE_S)
        self._sound = None
        rested = at_s - self._last_s >= self._config.unknown_refractory_s - _ROUNDING_S
        if sound.window is None or not rested or sound.best >= self._config.unknown_threshold:
            return None
        self._last_s = at_s
        return UnknownSound(sound.window, sound.best, sound.level_db, sound.features)

    def _copied(self, past: Floats, from_s: float, to_s: float = 0.0) -> Floats:
        """Copy samples, from and to so many seconds ago."""
        rate_hz = self._settings.sample_rate_hz
        return past[-round(from_s * rate_hz) : len(past) - max(0, round(to_s * rate_hz))].copy()

    def _begins(self, level_db: float) -> bool:
        """Say whether a sound begins: the level rises above the noise floor, where it was not before."""
        self._levels.append(level_db)
        self._floor_db = float(np.quantile(self._levels, _FLOOR_QUANTILE))
        config = self._config
        loud = level_db >= max(config.energy_gate_db, self._floor_db + config.unknown_onset_db)
        began = loud and not self._loud
        self._loud = loud
        return began
