"""Recognises sounds in a stream: sliding windows, features, inference, and decisions; docs/listening.md."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from edge_client.audio.level import FLOOR_DB, rms_dbfs
from edge_client.audio.recordings import since_pause
from edge_client.config.sections import DetectorConfig
from edge_client.detection.doubts import Doubt, Doubts
from edge_client.detection.longer_words import Held, Longer, longer_words
from edge_client.detection.pace import pace_of
from edge_client.detection.posterior_handling import Decisions
from edge_client.detection.scores import BEFORE_S, STATES, Scorer, windows_before
from edge_client.detection.sound_names import Guesser
from edge_client.detection.thresholds import Tail, threshold_of
from edge_client.detection.unknown_sounds import UnknownSound, UnknownSounds
from edge_client.events import Event, Heard
from edge_client.features.front_end import open_sliding
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.arrays import Floats

log = logging.getLogger(__name__)

# Seconds after which it is said again that a sound goes on.
_AGAIN_S = 2.0


@dataclass(frozen=True)
class Loaded:
    """What a detector recognises sounds by."""

    model: ModelRuntime
    label_map: LabelMap
    # How high other sounds score, by label; a label without one gets a fixed threshold.
    tails: Mapping[str, Tail] = field(default_factory=dict)
    prototypes: Mapping[str, Prototype] = field(default_factory=dict)  # by label
    built_in: Mapping[str, str] = field(default_factory=dict)  # by label, which built-in sound or word it is
    thresholds: Mapping[str, float] = field(default_factory=dict)  # the owner's by label, 0..1, before all others
    off: frozenset[str] = frozenset()  # labels that are not listened for now, by their owner's choice
    lasting: frozenset[str] = frozenset()  # everyday sounds, which have a begin and an end; Detector.take_followed
    guesser: Guesser | None = None  # says what an unknown sound may be
    # Takes of every window its hop, s, averaged scores, None where it was too quiet, what was detected, and the input.
    look: Callable[[float, Floats | None, str, str], None] | None = None
    doubt: Callable[[Doubt], None] | None = None  # takes every sound of which it is doubtful whether it is a label

    @property
    def longer(self) -> Longer:
        """Labels whose words begin as others do, of those that are listened for."""
        return longer_words({name: one for name, one in self.prototypes.items() if name not in self.off})


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
        features: Of the newest window, float32 [frames, numbers]; None where it was too quiet.
        sample_rate_hz: Sample rate of the stream, the model's, Hz.
        hop_samples: Number of samples from one window to the next: ``hop_s`` in whole frames, at most a clip.
    """

    def __init__(
        self, loaded: Loaded, config: DetectorConfig, clock: Callable[[], float] = time.time, input_name: str = ""
    ) -> None:
        """Begin with an empty stream; clock: seconds since 1970; input_name: where it comes from, for events."""
        self.counters = Counters()
        self.level_db = FLOOR_DB
        self._config = config
        self._clock = clock
        self._input = input_name
        self.features: Floats | None = None
        self._warned: set[str] = set()
        settings = loaded.model.manifest.feature_settings
        self._settings: FeatureSettings = settings
        self.sample_rate_hz = settings.sample_rate_hz
        self._doubts = None if loaded.doubt is None else Doubts(settings, loaded.doubt)
        self._pace = pace = pace_of(config, settings)
        self.hop_samples, hop_s = pace.hop_samples, pace.hop_s
        self._features = open_sliding(settings, pace.hop_frames)
        # Features of the newest windows, the oldest first; None of a quiet one.
        self._ago = windows_before(hop_s)
        self._newest: deque[Floats | None] = deque(maxlen=STATES * self._ago + 1)
        self._unknown_sounds = UnknownSounds(config, settings, hop_s, pace.average_s)
        # The newest window stands at the end of all that a word, or an unknown phrase, may have begun in.
        longest = round((settings.clip_s + STATES * BEFORE_S) * settings.sample_rate_hz)
        self._past: Floats = np.zeros(max(longest, self._unknown_sounds.samples), np.float32)
        self._window: Floats = self._past[-settings.clip_samples :]
        self._hop: Floats = np.zeros(self.hop_samples, np.float32)
        self._in_hop = 0
        self._heard_samples = 0
        self._whole_from = settings.clip_samples  # so many samples of the stream complete the first window
        self._held: Held[Heard] = Held({})
        self._going_on: dict[int, tuple[Event, float]] = {}
        self._interrupted: set[int] = set()  # slots of those that were said to be over since the stream stands still
        self._followed: list[Event] = []
        self._label_map = LabelMap(1)
        self._decisions = Decisions(np.zeros((0, 1), np.float32), (), config)
        self.adopt(loaded)

    def adopt(self, loaded: Loaded) -> None:
        """Go on with other weights or labels; the stream is not interrupted, and neither are sounds whose labels stay.

        Raises FeatureMismatchError if the model computes its features in another way.
        """
        model, label_map = loaded.model, loaded.label_map
        self._settings.require_same(model.manifest.feature_settings, "the model that listened", "the new model")
        former, former_names = self._decisions, self._label_map.names
        if self._doubts is not None:
            self._doubts.reset()
        self._look, self._guesser = loaded.look, loaded.guesser
        self._label_map = label_map
        self._scorer = Scorer(model, label_map, loaded.prototypes, loaded.built_in)
        self._held.longer = loaded.longer
        columns, average_s = self._thresholds(loaded.tails, loaded.thresholds)[:, None], self._pace.average_s
        labels = label_map.names
        self._decisions = Decisions(columns, labels, self._config, loaded.lasting, loaded.off, average_s=average_s)
        on = {name: slot for slot, name in enumerate(label_map.names) if name not in loaded.off}
        slots = {old: on[name] for old, name in enumerate(former_names) if name in on}
        self._decisions.go_on(former, slots)
        now, sounding = self._clock(), self._decisions.sounding
        going_on, self._going_on = self._going_on, {}
        interrupted, self._interrupted = self._interrupted, set()
        for slot, (event, said_s) in going_on.items():
            if slots.get(slot) in sounding:
                self._going_on[slots[slot]] = event, said_s
                self._interrupted |= {slots[slot]} if slot in interrupted else set()
            elif slot not in interrupted:  # its label is gone, or off
                self._followed.append(replace(event, ended=max(event.time, now)))
        # With a single output every score is 1: nothing follows from it.
        self._discriminates = bool(label_map.slots) and label_map.listening_mask.sum() > 1
        heard = [name for name, on in zip(label_map.names, label_map.mask, strict=False) if on]
        if len(heard) == 1 and not self._discriminates:
            said = "only %r is known, which cannot be distinguished from anything else: teach a second sound"
            log.warning(said, heard[0])

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that can be heard now, or whenever their owner has them listened for."""
        return self._label_map.labels

    @property
    def averaged(self) -> Floats:
        """The newest averaged scores, float32 [labels]."""
        return self._decisions.averaged

    @property
    def standing(self) -> dict[str, tuple[float, float]]:
        """The newest averaged score of every label that is on, and the threshold from which it counts as heard."""
        names, decisions = self._label_map.names, self._decisions
        pairs = zip(decisions.averaged.tolist(), decisions.columns[:, 0].tolist(), strict=True)
        both = {name: pair for name, pair, off in zip(names, pairs, decisions.off, strict=True) if not off}
        return {label: both[label] for label in self.labels if label in both}

    @property
    def longer(self) -> Longer:
        """As of what it listens with now, :class:`Loaded`."""
        return self._held.longer

    def window(self) -> Floats:
        """Return the newest complete window, float32 [clip_samples]; zeros stand for what was before the stream."""
        return self._window.copy()

    def push(self, samples: Floats) -> list[Heard]:
        """Take the stream's next samples, float32 [any number] at the model's rate; return what was heard in them."""
        return [heard for _ in self._hops(samples) for heard in self._classify()]

    def take_followed(self) -> list[Event]:
        """Return, once, the events whose sounds went on for a while or are over (``ended``) since this was last asked.

        Those of lasting labels alone: a word has no length.
        """
        followed, self._followed = self._followed, []
        return followed

    def interrupt(self, now: float) -> None:
        """Let the sounds that go on be over, s since 1970: the stream stands still. One heard afterwards goes on."""
        for slot, (event, _) in self._going_on.items():
            if slot not in self._interrupted:
                self._followed.append(replace(event, ended=max(event.time, now)))
        self._interrupted = set(self._going_on)

    def forget(self) -> None:
        """Forget the newest sound: the stream stood still for long, and what comes next does not follow that."""
        self._past[:] = 0.0
        self._hop[:] = 0.0
        self._in_hop = 0
        self._whole_from = self._heard_samples + len(self._window)
        self._features.reset()
        self._newest.clear()
        self._unknown_sounds.forget()
        if self._doubts is not None:
            self._doubts.reset()

    def skip(self, samples: Floats) -> None:
        """Take the stream's next samples without looking at their windows."""
        for _ in self._hops(samples):
            self.counters.skipped += 1
            self._features.reset()
            self._newest.clear()

    def _thresholds(self, tails: Mapping[str, Tail], chosen: Mapping[str, float]) -> Floats:
        """Return every label's threshold."""
        names = self._label_map.names
        for name in sorted(self._config.thresholds.keys() - set(names) - self._warned):
            self._warned.add(name)
            said = "[detector.thresholds] %s: no sound has this label yet; known: %s"
            log.warning(said, name, ", ".join(self.labels))
        return np.array([threshold_of(name, self._config, tails, chosen) for name in names], np.float32)

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
            self._past[: -self.hop_samples] = self._past[self.hop_samples :]
            self._past[-self.hop_samples :] = self._hop
            if self._heard_samples >= self._whole_from:
                yield

    def _classify(self) -> list[Heard]:
        self.counters.windows += 1
        self.level_db = rms_dbfs(self._window)
        at_s = self._heard_samples / self._settings.sample_rate_hz
        scores, limits = self._scores()
        slot = self._decisions.update(scores, at_s, limits)
        self._follow(at_s)
        averaged = self.averaged
        best = float(averaged.max(initial=0.0))
        if self._look is not None:
            detected = "" if slot is None else self._label_map.slots[slot].name
            heard = None if self.features is None else averaged
            self._look(self._pace.hop_s, heard, detected, self._input)
        now = self._clock()
        # What a label that is off would have been is no other, no question, and nothing unknown.
        if self._doubts is not None and not self._decisions.off.all():
            top = int(np.where(self._decisions.off, -1.0, averaged).argmax())
            self._doubts.update(
                at_s,
                now,
                self._label_map.names[top],
                float(averaged[top]),
                float(self._decisions.columns[top, 0]),
                self.features,
                self._whole(top),
                detected=slot is not None,
            )
        sound = self._unknown_sounds.update(
            at_s, rms_dbfs(self._hop), best, self._past, self.level_db, heard=slot is not None, features=self.features
        )
        if slot is not None:
            label = self._label_map.slots[slot]
            score = float(averaged[slot])
            event = Event(now, "detected", label.name, label.class_id, score, self.level_db, input=self._input)
            if slot in self._decisions.sounding:
                self._going_on[slot] = event, at_s
            return self._held.update(
                at_s, label.name, Heard(event, since_pause(self._whole(slot), self._settings).copy())
            )
        certain = self._held.update(at_s, None)
        if sound is None:
            return certain
        guess = self._guess(sound)
        unknown = Event(now, "unknown", "unknown", None, sound.score, sound.level_db, input=self._input, guess=guess)
        return [*certain, Heard(unknown, sound.window)]

    def _whole(self, slot: int) -> Floats:
        """Return the newest window, and before it what a label's word may have begun in, float32 [samples]."""
        seconds = self._settings.clip_s + self._scorer.states_of(slot) * BEFORE_S
        return self._past[-round(seconds * self._settings.sample_rate_hz) :]

    def _guess(self, sound: UnknownSound) -> str:
        """Return what an unknown sound may be, as of an event."""
        if self._guesser is None:
            return ""
        features = self._features_alone(sound.window) if sound.features is None else sound.features
        return ", ".join(self._guesser.guess(features.ravel()))

    def embedding(self) -> Floats | None:
        """Return the newest window's features, float32 [numbers], also where nothing that is known needs them.

        None where it was too quiet.
        """
        if self.level_db < self._config.energy_gate_db:
            return None
        return (self._features_alone(self._window) if self.features is None else self.features).ravel()

    def _features_alone(self, window: Floats) -> Floats:
        """Return features of a window that the stream's others do not go on from."""
        self._features.reset()
        found = self._features(window)
        self._features.reset()
        return found

    def _follow(self, at_s: float) -> None:
        """Note the sounds that are over, and those that went on for a while."""
        now = self._clock()
        for slot, until_s in self._decisions.ended:
            event, _ = self._going_on.pop(slot)
            if slot not in self._interrupted:
                self._followed.append(replace(event, ended=max(event.time, now - (at_s - until_s))))
            self._interrupted.discard(slot)
        for slot, (event, said_s) in self._going_on.items():
            if at_s - said_s >= _AGAIN_S:
                self._going_on[slot] = event, at_s
                self._interrupted.discard(slot)
                self._followed.append(event)

    def _scores(self) -> tuple[Floats, Floats | None]:
        """Return the newest window's scores, float32 [labels], and how high by it those of an earlier one may be.

        Zeros and None where it is too quiet to say.
        """
        quiet = self.level_db < self._config.energy_gate_db
        self.counters.gated += quiet
        if quiet or not self._discriminates:
            self._features.reset()
            self.features = None
            self._newest.append(None)
            return np.zeros(self._scorer.labels, np.float32), None
        self.features = self._features(self._window)
        self._newest.append(self.features)
        windows = self._scorer.windows(self.features[None], self._earlier(self.features))
        return self._scorer.of(windows)[0], self._scorer.limits(windows)[0]

    def _earlier(self, now: Floats) -> Floats | None:
        """Return features of windows half a second ago, a second, and so on, float32 [states, 1, frames, numbers]."""
        states = self._scorer.states
        if not self._ago or not states:
            return None
        found = np.full((states, 1, *now.shape), np.nan, np.float32)
        for state, ago in enumerate(list(self._newest)[-1 - self._ago :: -self._ago][:states]):
            if ago is not None:
                found[state, 0] = ago
        return found
