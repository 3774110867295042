"""Learning at once, in the process of a command, what the daemon learns by itself: clips, and in the night the room."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from edge_client.clips.files import store_digest
from edge_client.config import Config
from edge_client.errors import StateError, WorkError
from edge_client.learning.teaching.job import teach
from edge_client.learning.teaching.room_material import NEEDED_HOURS, KnownRoom, helps, judge_room
from edge_client.room.memory import kept_sample, layout_of
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle import read_bundle

# How long a training of the daemon's may take to its end, s.
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Learned:
    """What was learned.

    Attributes:
        clips: How many clips.
        seconds: How long it took.
        hours: How many hours that were heard in the room could be learned from; 0 where it is not known.
        room_left_out: Why what was heard there is not learned; "" where it is.
    """

    clips: int
    seconds: float
    hours: float
    room_left_out: str


def learn_at_once(config: Config, state: DeviceState, patience_s: float = _PATIENCE_S) -> Learned:
    """Learn all clips and the room, as in the night, and save the model, which a daemon that runs takes up.

    Raises WorkError if there is nothing to learn, the device learns in rounds alone, or another process is training;
    RecordingError, ModelError as teaching does.
    """
    if config.microphone is None:
        raise WorkError("without [microphone] this device learns in rounds alone: nothing is learned at once")
    try:
        lock = state.lock("training", patience_s)
    except StateError as error:
        raise WorkError(
            "the daemon is training now, and one at a time does; `auricle-edge status` says at what, then try again"
        ) from error
    try:
        began, room = time.monotonic(), KnownRoom.of(config, state, read_bundle(config.bundle).manifest)
        _require_something(config, state, room)
        if room is not None:
            judge_room(state, time.time())
        made = teach(config, state)
        if room is None:
            return Learned(made.clips, time.monotonic() - began, 0.0, _why_no_room(config, state))
        left_out = "" if helps(state) else "with it takes would be missed, or there are too few takes to judge by"
        return Learned(made.clips, time.monotonic() - began, room.sample.heard_hours, left_out)
    finally:
        os.close(lock)


def _require_something(config: Config, state: DeviceState, room: KnownRoom | None) -> None:
    """Raise WorkError where the model has learned all that there is."""
    digest = store_digest(config.clips_folder)
    if digest is None and not state.model.lacks_background():
        raise WorkError(f"nothing to learn: there are no clips in {config.clips_folder}; record or import some first")
    if room is None and digest == state.model.taught():
        raise WorkError(f"nothing to learn: every clip is learned, and {_why_no_room(config, state)}")


def _why_no_room(config: Config, state: DeviceState) -> str:
    if not config.learning.room:
        return "the room is not to be learned ([learning] room = false)"
    manifest = read_bundle(config.bundle).manifest
    if layout_of(manifest, config.detector) is None:
        return "with this bundle a device does not learn its room (docs/listening.md)"
    found = kept_sample(config, state, manifest)
    hours = 0.0 if found is None else found[1].heard_hours
    return f"of the room {hours:.1f} hours were heard, and {NEEDED_HOURS:g} are needed"
