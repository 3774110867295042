"""Keeps a running device's reservoir and its file together: opens it, saves it, and forgets it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from edge_client.config import Config
from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import pace_of
from edge_client.detection.scores import Scorer, windows_before
from edge_client.detection.thresholds import Tail
from edge_client.errors import StateError
from edge_client.features.front_end import hop_frames
from edge_client.logs import RateLimitedLog
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from edge_client.room.observed_rates import observed_rates
from edge_client.room.reservoir import Layout, Reservoir, Sample
from edge_client.room.room_tails import room_tails
from edge_client.room.store import forget_room, read_sample, read_wrong_detections, write_sample
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle import Manifest
from fleet_protocol.labels import LabelMap

log = logging.getLogger(__name__)

# Time between two savings: what a power cut may cost, s.
_SAVE_S = 900.0
# Savings from one change of thresholds to the next.
_SAVINGS = 4
_ROUNDING = 1e-6


def layout_of(manifest: Manifest, config: DetectorConfig) -> Layout | None:
    """Return how runs of a front end are made; None where it is no pretrained network with one row of numbers."""
    settings = manifest.feature_settings
    if manifest.embedding_statistics is None or settings.shape[0] != 1:
        return None
    pace = pace_of(config, settings)
    samples = min(hop_frames(settings, pace.hop_s) * settings.hop_samples, settings.clip_samples)
    hop_s = samples / settings.sample_rate_hz
    averaged = max(1, math.ceil(pace.average_s / hop_s - _ROUNDING))
    return Layout(settings.digest, settings.shape[1], hop_s, averaged, windows_before(hop_s))


def kept_sample(config: Config, state: DeviceState, manifest: Manifest) -> tuple[Layout, Sample] | None:
    """Return what was saved of the room; None where nothing was, or it is not to be used."""
    layout = layout_of(manifest, config.detector) if config.learning.room else None
    sample = None if layout is None else read_sample(state.room_path, layout)
    return None if layout is None or sample is None else (layout, sample)


def tails_here(
    config: Config,
    state: DeviceState,
    model: ModelRuntime,
    label_map: LabelMap,
    tails: Mapping[str, Tail],
    prototypes: Mapping[str, Prototype],
    known: Mapping[str, str],
) -> Mapping[str, Tail]:
    """Return labels' tails for this room, as far as it is known."""
    found = kept_sample(config, state, model.manifest) if tails else None
    if found is None or not len(found[1].at_s):
        return tails
    layout, sample = found
    scorer = Scorer(model, label_map, prototypes, known)
    return room_tails(sample, layout, scorer, label_map, tails, read_wrong_detections(state.database))


class RoomMemory:
    """A daemon's reservoir; :meth:`look` for the thread that listens, everything else for the main one."""

    def __init__(self, layout: Layout, state: DeviceState, clock: Callable[[], float] = time.time) -> None:
        """Go on with what was saved."""
        self._state, self._clock = state, clock
        self._layout = layout
        self._savings = 0
        self._trouble = RateLimitedLog(log)
        self._wrong: tuple[object, list[tuple[float, str]]] = None, []
        self._taken_up = self._wrong_detections()
        kept = read_sample(state.room_path, layout)
        self._reservoir = Reservoir(layout, kept, clock)
        self._saved = time.monotonic()
        self._on_disk = kept is not None
        if not self._on_disk:
            self.save()  # so that a file which is gone later was removed, and none of another front end stays
        self.look = self._reservoir.look

    @classmethod
    def open(cls, config: Config, state: DeviceState, manifest: Manifest) -> RoomMemory | None:
        """Return the room's memory; None where it is off or cannot be. What is kept is removed where it is off."""
        layout = layout_of(manifest, config.detector) if config.learning.room and config.microphone else None
        if layout is None:
            if not config.learning.room:
                forget_room(state)
            return None
        return cls(layout, state)

    def follow(self) -> bool:
        """Save where it is time, and forget all where the file was removed; return whether thresholds may be others.

        They are once an hour, and when the owner says that a detection was wrong, or takes that back.
        """
        if self._on_disk and not self._state.room_path.exists():
            self._reservoir.forget()
            self._on_disk = False
            log.info("forgot what was heard in this room")
            return True
        if (wrong := self._wrong_detections()) != self._taken_up:  # the owner does not wait an hour for it
            self._taken_up = wrong
            self.save()
            return True
        if time.monotonic() - self._saved < _SAVE_S:
            return False
        self.save()
        self._savings += 1
        return self._savings % _SAVINGS == 0

    def save(self) -> None:
        """Write the file; a full disk is logged, and what is in memory stays."""
        self._saved = time.monotonic()
        if self._on_disk and not self._state.room_path.exists():
            return  # removed this moment: the next look at it forgets
        try:
            write_sample(self._state.room_path, self._layout, self._reservoir.sample())
            self._on_disk = True
        except OSError as error:
            self._trouble.warning("cannot keep what was heard in this room: %s", error)

    def status(self, promised: float) -> dict[str, Any]:
        """Return what was promised, and what came: hours that were heard, and detections by label, of the last days."""
        return observed_rates(*self._reservoir.counts(), promised, self._wrong_detections(), self._clock())

    def _wrong_detections(self) -> list[tuple[float, str]]:
        """Return what the owner said was heard wrongly; asked for twice a second, and read where the file changed."""
        key = self._state.database.key()
        if key != self._wrong[0]:
            try:
                self._wrong = key, read_wrong_detections(self._state.database)
            except (StateError, OSError) as error:
                self._trouble.warning("cannot read which detections were wrong: %s", error)
        return self._wrong[1]
