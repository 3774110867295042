"""The loop that listens: reads sound, recognises it, and publishes events; it never falls behind for long."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from edge_client.capture import AudioSource
from edge_client.clips.folders import SOUND
from edge_client.config import Config
from edge_client.config.sections import DetectorConfig
from edge_client.detection.detector import Detector, Loaded
from edge_client.detection.observed_rates import tails_here
from edge_client.detection.sensitivity import StepCounts
from edge_client.detection.sound_names import Guesser, LatelyHeard
from edge_client.detection.thresholds import Tail
from edge_client.errors import AudioError
from edge_client.events.publisher import Publisher
from edge_client.live import LiveFeed
from edge_client.logs import RateLimitedLog
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.numbers.arrays import Doubles, Floats

log = logging.getLogger(__name__)

_TIMEOUT_S = 0.5
# Sound that may wait, as it does while another process has the processor, and is caught up with; beyond it is skipped.
_BEHIND_S = 1.0
_MAX_READ_S = 60.0
# Without sound for longer, as in a pause, what comes next is no part of what was heard before.
_BROKEN_S = 2.0
# Share of the time that the detector needs, below which it is not the reason for sound that waits.
_FAST_ENOUGH = 0.5
# Hops over which latency is counted.
_RECENT = 1000


def load_listening(config: Config) -> Loaded:
    """Return the model with the weights that listen, its labels, and how often other sounds score high for them.

    Raises StateError if the saved model is damaged or another bundle's; ModelError if no runtime takes the graph.
    """
    state = DeviceState(config.device.state)
    saved = state.model.load(config.bundle)
    model = ModelRuntime(saved.listening_bundle, config.device.threads)
    progress = saved.progress.for_listening
    tails = {label: Tail(*numbers) for label, numbers in progress.tails.items()}
    labels, near, built_in = progress.listening_labels, progress.prototypes, progress.known
    if config.learning.room:
        tails = tails_here(state.database, model.manifest.feature_settings.digest, tails)
    # Everyday sounds have a begin and an end; a front end that hears both found out at teaching what each label is.
    taught = (one["label"] for one in state.advice() if one.get("kind") == SOUND)
    statistics = saved.bundle.manifest.embedding_statistics
    sounds = (
        () if statistics is None else (label for label, name in built_in.items() if name in statistics.known.sounds)
    )
    lasting = labels.labels if saved.bundle.manifest.feature_settings.hears_sounds else (*taught, *sounds)
    return Loaded(
        model,
        labels,
        tails,
        near,
        built_in,
        state.choices.thresholds(),
        state.choices.off(time.time()),
        frozenset(lasting),
        Guesser.of(model.manifest.feature_settings, statistics),
    )


class ListeningLoop:
    """One microphone's loop; :meth:`run` in one thread, everything else in any.

    ``hearings``: what would have been heard at other thresholds.
    """

    def __init__(
        self,
        source: AudioSource,
        load: Callable[[], Loaded],
        config: DetectorConfig,
        publisher: Publisher,
        beat: Callable[[], None],
        feed: LiveFeed | None = None,
        *,
        input_name: str = "",
    ) -> None:
        """Load the model; nothing is read yet. Raises AudioError if the source has another rate than the model.

        Args:
            load: Returns the model and the labels, now and at every :meth:`reload`.
            beat: Called whenever the loop makes progress. A source without sound is waited for, and waiting is
                progress: it is opened again and again, and nothing else here would bring it back.
            input_name: What events call the source; "" where there is no other.
        """
        self._source, self._load, self._beat = source, load, beat
        self._publisher, self._feed, self._input = publisher, feed, input_name
        loaded = load()
        self._detector = Detector(loaded, config, input_name=input_name)
        self._lasting = loaded.lasting
        self._lately = None if loaded.guesser is None else LatelyHeard(loaded.guesser)
        self._over_after_s = config.over_after_s
        self.hearings = StepCounts(config)
        self._pending: Loaded | None = None
        self._lock = threading.Lock()
        self._latencies_s: deque[float] = deque(maxlen=_RECENT)
        self._last_frame = time.monotonic()
        self._trouble = RateLimitedLog(log)
        self._rate_hz = self._detector.sample_rate_hz
        if source.sample_rate_hz != self._rate_hz:
            raise AudioError(
                f"the microphone gives {source.sample_rate_hz} Hz, but the model needs {self._rate_hz} Hz; "
                "open it at the model's rate"
            )
        self._announce()

    def run(self, stop: threading.Event) -> None:
        """Listen until asked to stop. Raises AudioError if the source failed for good."""
        try:
            self._listen(stop)
        finally:
            self._end_sounds()

    def _listen(self, stop: threading.Event) -> None:
        longest = round(_MAX_READ_S * self._rate_hz)
        hears = False
        while not stop.is_set():
            self._take_reloaded()
            samples = self._source.read(self._detector.hop_samples, _TIMEOUT_S)
            self._beat()
            if not len(samples):
                age_s = time.monotonic() - self._last_frame
                if age_s > self._over_after_s:
                    self._end_sounds()
                if age_s > _BROKEN_S:
                    self._detector.forget()
                continue
            if not hears:
                hears = True
                self._publish_labels()
            self._last_frame = time.monotonic()
            waiting = self._source.read(longest, 0.0)
            if len(waiting) > _BEHIND_S * self._rate_hz:
                self._skip(np.concatenate([samples, waiting]))
            else:
                self._push(samples)
                self._push(waiting)

    def reload(self) -> None:
        """Take up the weights and labels that were saved. Raises EdgeError, and keeps the old ones, where it cannot."""
        loaded = self._load()
        with self._lock:
            self._pending = loaded

    def counters(self) -> dict[str, float | int | str | None]:
        """Return what the status says of listening; ``latency_ms`` and its like are None before the first hop."""
        latencies, counted = self._recent(), self._detector.counters
        known = len(latencies) > 0
        return {
            "frames": self._source.frames,
            "overflows": self._source.overflows,
            "reopened": self._source.reopened,
            "windows": counted.windows,
            "gated": counted.gated,
            "skipped": counted.skipped,
            "latency_ms": round(1e3 * float(np.median(latencies)), 3) if known else None,
            "latency_95th_ms": round(1e3 * float(np.quantile(latencies, 0.95)), 3) if known else None,
            "real_time_factor": self._real_time_factor(),
            "lent": self._source.lent,
            "last_frame_age_s": round(time.monotonic() - self._last_frame, 3),
            "level_db": round(self._detector.level_db, 1),
            "trouble": self._source.trouble,
        }

    def _real_time_factor(self) -> float | None:
        """Return the share of the time that the detector needs; None before the first hop."""
        latencies, hop_s = self._recent(), self._detector.hop_samples / self._rate_hz
        return round(float(latencies.mean()) / hop_s, 5) if len(latencies) else None

    def _recent(self) -> Doubles:
        with self._lock:
            return np.array(self._latencies_s)

    def _take_reloaded(self) -> None:
        with self._lock:
            loaded, self._pending = self._pending, None
        if loaded is not None:
            self._detector.adopt(loaded)
            self._lasting = loaded.lasting
            self._publish_labels()
            self._announce()

    def _announce(self) -> None:
        for sink in self._publisher.sinks:
            sink.announce(self._detector.labels)

    def _publish_labels(self) -> None:
        on = ", ".join(self._detector.standing)
        log.info("listening for %s", on or "nothing yet: teach a sound, or switch one on")

    def _push(self, samples: Floats) -> None:
        before, begin = self._detector.counters.windows, time.perf_counter()
        found = self._detector.push(samples)
        hops = self._detector.counters.windows - before
        if hops:
            with self._lock:
                self._latencies_s.append((time.perf_counter() - begin) / hops)
            self.hearings.update(self._detector.standing, self._lasting, self._detector.longer)
            for sink in self._publisher.sinks:
                sink.level(self._input, self._detector.level_db, hops * self._detector.hop_samples / self._rate_hz)
        self._follow()
        for heard in found:
            self._publisher.publish(heard)
        if self._feed is not None and len(samples) and self._feed.watched():
            lately = self._lately
            guesses = () if lately is None else lately.update(time.monotonic(), self._detector.embedding())
            self._feed.send(samples, self._detector.standing, found, dict(guesses))

    def _follow(self) -> None:
        for event in self._detector.take_followed():
            for sink in self._publisher.sinks:
                sink.follow(event)

    def _end_sounds(self) -> None:
        """Say that all sounds are over: without a microphone nobody would. One that is heard afterwards goes on."""
        self._detector.interrupt(time.time() - (time.monotonic() - self._last_frame))
        self._follow()

    def _skip(self, samples: Floats) -> None:
        """Catch up: of all that waited only the newest hop is processed."""
        newest = self._detector.hop_samples
        self._detector.skip(samples[:-newest])
        skipped_s, factor = (len(samples) - newest) / self._rate_hz, self._real_time_factor()
        if factor is None or factor < _FAST_ENOUGH:
            self._trouble.warning("was kept waiting by another program or the disk: skipped %.1f s of sound", skipped_s)
        else:
            slow = "this board is too slow: skipped %.1f s of sound; a larger [detector] hop_s helps"
            self._trouble.warning(slow, skipped_s)
        self._push(samples[-newest:])
