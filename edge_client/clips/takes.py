"""A recording session: takes of one sound, from the microphone that the daemon lends into the store."""

from __future__ import annotations

import dataclasses
from contextlib import closing

from edge_client.capture.pauses import Pauses
from edge_client.capture.playback import Cues
from edge_client.capture.shared_microphone import OwnersMicrophone, borrowed_microphone
from edge_client.clips.folders import Clip
from edge_client.clips.recorder import Display, Recorder
from edge_client.clips.store import ClipStore
from edge_client.config import Config
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import ClipError
from edge_client.storage.database import FILE, Database
from edge_client.storage.owner_acts import Act, Move, OwnerActs
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats

# Seconds around a clip-long sound, so that nobody must speak to the point.
_ROOM_FOR_SLOWNESS_S = 1.0
_LONGEST_S = 60.0


def record_takes(
    config: Config,
    settings: FeatureSettings,
    store: ClipStore,
    label: str,
    count: int,
    seconds: float | None,
    display: Display,
    cues: Cues | None = None,
) -> None:
    """Record ``count`` good takes of a sound into the store.

    ``label``: of :meth:`Teaching.require_slot`; ``seconds``: length of a take, a second more than a clip where None;
    ``cues``: sounds before and after a take. What the display raises ends the session, and takes that were kept stay.
    Raises PausedError if the device is paused, or becomes so; ClipError if a number cannot be, or another process is
    changing the store; QuotaError if there is no room; AudioError if the microphone is in use or gives nothing, or too
    many takes were no good.
    """
    database, rate = Database(config.device.state / FILE), settings.sample_rate_hz
    pauses, microphone = Pauses(database, config.hours), config.microphone or MicrophoneConfig()
    pauses.require_awake()
    if microphone.source == "file":
        raise ClipError(
            "this device plays recordings in place of a microphone, and would record these: add recordings of the "
            "sound instead (auricle-edge import)"
        )
    seconds = settings.clip_s + _ROOM_FOR_SLOWNESS_S if seconds is None else seconds
    if not settings.clip_s <= seconds <= _LONGEST_S or count < 1:
        raise ClipError(
            f"--seconds must be from {settings.clip_s:g} (a clip) to {_LONGEST_S:g}, and --count at least 1"
        )
    with (
        borrowed_microphone(config.device.state),
        store.changing(),
        closing(OwnersMicrophone(microphone, rate, pauses.require_awake)) as source,
    ):
        recorder = Recorder(source, settings, display, cues)
        store.add_background(recorder.hear_room(), rate, settings.clip_s)
        takes = Takes(store, OwnerActs(database), label, rate)
        recorder.record(count, seconds, takes.keep, takes.discard)


class Takes:
    """Takes of a label, at a rate: kept one by one, discarded by number, undone together. For who holds the store."""

    def __init__(self, store: ClipStore, acts: OwnerActs, label: str, rate_hz: int) -> None:
        self._store, self._acts, self._label, self._rate_hz = store, acts, label, rate_hz
        self._names: list[str] = []
        self._act = Act("recorded", label=label)

    def keep(self, take: Floats) -> None:
        """Store a take, float32 [samples]. Raises as :meth:`ClipStore.add`."""
        path, is_new = self._store.add(self._label, take, self._rate_hz)
        self._names.append(path.name)
        if is_new:
            self._act = self._acts.extend(self._act, [Move("", self._label, path.name)])

    def discard(self, take: int) -> None:
        """Delete the take of a number, from 1, for good; one that the label had before stays. Raises ClipError."""
        name = self._names.pop(take - 1)
        left = tuple(move for move in self._act.moves if move.name != name)
        if len(left) == len(self._act.moves):
            return
        self._act = dataclasses.replace(self._act, moves=left)
        self._acts.replace(self._act)
        self._store.delete(Clip(self._label, self._store.folder / self._label / name))
