"""Recognises sounds in a stream: sliding windows, features, inference, and decisions; docs/listening.md."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from edge_client.audio.level import FLOOR_DB, rms_dbfs
from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import pace_of
from edge_client.detection.posterior_handling import PosteriorHandler
from edge_client.detection.thresholds import Tail, threshold_of
from edge_client.detection.unknown_sounds import UnknownSounds
from edge_client.events import Event, Heard
from edge_client.features.front_end import hop_frames, open_sliding
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.labels import LabelMap

log = logging.getLogger(__name__)

_NO_TAILS: Mapping[str, Tail] = MappingProxyType({})
Look = Callable[[Floats | None, float, str], None]


@dataclass
class Counters:
    """Number of windows, of those too quiet for an inference, and of hops that a slow board left out."""

    windows: int = 0
    gated: int = 0
    skipped: int = 0


class Detector:
    """One stream's detector; used by one thread.

    Attributes:
        level_db: Level of the newest window, dB full scale.
        scores: Scores of the newest window alone, float32 [labels]; zeros where it was too quiet to say.
        sample_rate_hz: Sample rate of the stream, the model's, Hz.
        hop_samples: Number of samples from one window to the next: ``hop_s`` in whole frames, at most a clip.
    """

    def __init__(
        self,
        model: ModelRuntime,
        label_map: LabelMap,
        config: DetectorConfig,
        clock: Callable[[], float] = time.time,
        tails: Mapping[str, Tail] = _NO_TAILS,
        look: Look | None = None,
    ) -> None:
        """Begin with an empty stream. Labels without a tail get a fixed threshold; clock: seconds since 1970; look:
        takes the features of every window, None for one too quiet, the best averaged score, and what was detected.
        """
        self.counters = Counters()
        self.level_db = FLOOR_DB
        self.scores: Floats = np.zeros(0, np.float32)
        self._config = config
        self._clock = clock
        self._look = look
        self._features_now: Floats | None = None
        self._warned: set[str] = set()
        settings = model.manifest.feature_settings
        self._settings: FeatureSettings = settings
        self.sample_rate_hz = settings.sample_rate_hz
        self._pace = pace_of(config, settings)
        frames = hop_frames(settings, self._pace.hop_s)
        self.hop_samples = min(frames * settings.hop_samples, settings.clip_samples)
        self._features = open_sliding(settings, frames)
        hop_s = self.hop_samples / settings.sample_rate_hz
        self._unknown_sounds = UnknownSounds(config, settings.clip_s, hop_s, self._pace.average_s)
        self._window: Floats = np.zeros(settings.clip_samples, np.float32)
        self._hop: Floats = np.zeros(self.hop_samples, np.float32)
        self._in_hop = 0
        self._heard_samples = 0
        self.adopt(model, label_map, tails)

    def adopt(self, model: ModelRuntime, label_map: LabelMap, tails: Mapping[str, Tail] = _NO_TAILS) -> None:
        """Go on with other weights or labels; the stream is not interrupted.

        Raises FeatureMismatchError if the model computes its features in another way.
        """
        self._settings.require_same(model.manifest.feature_settings, "the model that listened", "the new model")
        self._model = model
        self._label_map = label_map
        self._decisions = PosteriorHandler(self._thresholds(tails), self._pace.average_s, self._config.refractory_s)
        # With a single output every score is 1: nothing follows from it.
        self._discriminates = bool(label_map.slots) and label_map.listening_mask.sum() > 1
        if label_map.slots and not self._discriminates:
            log.warning(
                "only %r is known, which cannot be distinguished from anything else: teach a second sound", *self.labels
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that can be heard now."""
        return self._label_map.labels

    @property
    def standing(self) -> dict[str, tuple[float, float]]:
        """The newest averaged score of every label, and the threshold from which it counts as heard."""
        names, decisions = self._label_map.names, self._decisions
        pairs = zip(decisions.averaged.tolist(), decisions.thresholds.tolist(), strict=True)
        both = dict(zip(names, pairs, strict=True))
        return {label: both[label] for label in self.labels}

    def window(self) -> Floats:
        """Return the newest complete window, float32 [clip_samples]; zeros stand for what was before the stream."""
        return self._window.copy()

    def push(self, samples: Floats) -> list[Heard]:
        """Take the stream's next samples, float32 [any number] at the model's rate; return what was heard in them."""
        return [heard for _ in self._hops(samples) if (heard := self._classify()) is not None]

    def skip(self, samples: Floats) -> None:
        """Take the stream's next samples without looking at their windows."""
        for _ in self._hops(samples):
            self.counters.skipped += 1
            self._features.reset()

    def _thresholds(self, tails: Mapping[str, Tail]) -> Floats:
        """Return every label's threshold."""
        names = self._label_map.names
        for name in sorted(self._config.thresholds.keys() - set(names) - self._warned):
            self._warned.add(name)
            log.warning(
                "[detector.thresholds] %s: no sound has this label yet; known: %s", name, ", ".join(self.labels)
            )
        return np.array([threshold_of(name, self._config, tails) for name in names], np.float32)

    def _hops(self, samples: Floats) -> Iterator[None]:
        """Take samples; yield after every hop that completes a window."""
        while len(samples):
            part = samples[: self.hop_samples - self._in_hop]
            samples = samples[len(part) :]
            self._hop[self._in_hop : self._in_hop + len(part)] = part
            self._in_hop += len(part)
            if self._in_hop < self.hop_samples:
                return
            self._in_hop = 0
            self._heard_samples += self.hop_samples
            self._window[: -self.hop_samples] = self._window[self.hop_samples :]
            self._window[-self.hop_samples :] = self._hop
            if self._heard_samples >= len(self._window):
                yield

    def _classify(self) -> Heard | None:
        self.counters.windows += 1
        self.level_db = rms_dbfs(self._window)
        at_s = self._heard_samples / self._settings.sample_rate_hz
        self.scores = self._scores()
        slot = self._decisions.update(self.scores, at_s)
        averaged = self._decisions.averaged
        best = float(averaged.max(initial=0.0))
        if self._look is not None:
            self._look(self._features_now, best, "" if slot is None else self._label_map.slots[slot].name)
        sound = self._unknown_sounds.update(
            at_s, rms_dbfs(self._hop), best, self._window, self.level_db, heard=slot is not None
        )
        if slot is not None:
            known = self._label_map.slots[slot]
            score = float(averaged[slot])
            event = Event(self._clock(), "detected", known.name, known.class_id, score, self.level_db)
            return Heard(event, self._window.copy())
        if sound is None:
            return None
        return Heard(Event(self._clock(), "unknown", "unknown", None, sound.score, sound.level_db), sound.window)

    def _scores(self) -> Floats:
        """Return the newest window's scores, float32 [labels]; zeros where it is too quiet to say."""
        labels = len(self._label_map.slots)
        quiet = self.level_db < self._config.energy_gate_db
        self.counters.gated += quiet
        if quiet or not self._discriminates:
            self._features.reset()
            self._features_now = None
            return np.zeros(labels, np.float32)
        self._features_now = self._features(self._window)
        x = self._model.normalise(self._features_now[None])
        return self._model.predict(x, self._label_map.listening_mask)[0, :labels]
