"""What was heard in the room as negatives of the head: windows that are none of the labels', and whether they help.

Once a night it is judged whether they do: by heads that learned half of the takes, with and without them. Until the
next night the owner's teaching does as was found.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from edge_client.clips.folders import store_digest
from edge_client.config import Config
from edge_client.learning.teaching.head_material import SAME_SOUND, Heard
from edge_client.room.memory import kept_sample
from edge_client.room.reservoir import Layout, Sample
from edge_client.room.room_tails import is_denied
from edge_client.room.store import read_wrong_detections
from edge_client.storage.database import ROOM_LEARNED
from edge_client.storage.device_state import DeviceState
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import Manifest
from fleet_protocol.embedding_statistics import EmbeddingStatistics

# Hours of the night, local time, in which it is judged, and time between two nights, s.
_NIGHT, _PAUSE_S = range(2, 5), 20 * 3600.0
NEEDED_HOURS = 2.0
"""Hours that must have been heard before a room is learned."""
_JUDGE, _HELPS = "judge", "helps"


@dataclasses.dataclass(frozen=True)
class KnownRoom:
    """What teaching gets of the room: a sample, how it was made, and what the owner denied."""

    sample: Sample
    layout: Layout
    denied: list[tuple[float, str]]

    @classmethod
    def of(cls, config: Config, state: DeviceState, manifest: Manifest) -> KnownRoom | None:
        """Return it; None where too little was heard, or the owner does not want it."""
        found = kept_sample(config, state, manifest)
        if found is None or found[1].heard_hours < NEEDED_HOURS:
            return None
        return cls(found[1], found[0], read_wrong_detections(state.database))


def night_is_due(config: Config, state: DeviceState, now: float) -> bool:
    """Tell whether the room is to be learned now, and note that it will be: once a night, where there is something.

    Raises OSError if that cannot be noted.
    """
    listens = config.learning.room and config.microphone is not None and state.room_path.exists()
    if not listens or time.localtime(now).tm_hour not in _NIGHT:
        return False
    if 0 <= now - float(_noted(state).get("at", 0.0)) < _PAUSE_S or store_digest(config.clips_folder) is None:
        return False
    judge_room(state, now)
    return True


def judge_room(state: DeviceState, now: float) -> None:
    """Note that the next teaching is to judge whether what was heard in the room helps."""
    _note(state, now, _JUDGE)


def helps(state: DeviceState) -> bool:
    """Tell whether the room was found to help when it was last judged."""
    return bool(_noted(state).get(_HELPS))


def with_room(
    state: DeviceState, heard: Heard, rows: Floats, misses: Callable[[Heard, Mapping[str, Floats]], int]
) -> Heard:
    """Return what was heard, with the room's rows, float32 [windows, numbers], if they help.

    ``misses`` returns how many of other takes, by label float32 [clips, variants, numbers], a head misses that learned
    what was heard; asked where the room is judged.
    """
    found = _noted(state)
    use = bool(found.get(_HELPS))
    richer = dataclasses.replace(heard, room=rows)
    if found.get(_JUDGE):
        _note(state, float(found["at"]), "")  # where this is killed for taking too long, no teaching tries it again
        held_out = {label: clips[1::2] for label, clips in heard.takes.items() if len(clips) > 1}
        half = {label: clips[::2] for label, clips in heard.takes.items()}
        one, other = (dataclasses.replace(part, takes=half) for part in (richer, heard))
        use = bool(held_out) and len(rows) > 0 and misses(one, held_out) <= misses(other, held_out)
        _note(state, float(found["at"]), _HELPS if use else "")
    return richer if use and len(rows) else heard


def room_negatives(room: KnownRoom, takes: Mapping[str, Floats], statistics: EmbeddingStatistics) -> Floats:
    """Return embeddings of the room that are no label's, float32 [windows, numbers]: at most one of a run.

    Left out is what was detected and not denied, and what sounds like a label's takes: it may be the label's, missed.
    """
    sample = room.sample
    wrong = _wrong(sample, room.denied)
    chosen = np.flatnonzero((sample.taken < 0) | wrong)
    rows: Floats = sample.windows[chosen, -2].astype(np.float32)
    heard = np.isfinite(rows).all(axis=1)
    rows, doubtful = rows[heard], ~wrong[chosen][heard]
    if not len(rows) or not takes:
        return rows
    means = np.stack([clips.mean(axis=(0, 1)) for clips in takes.values()])
    cosines = (statistics.whitened(rows) @ statistics.whitened(means).T).max(axis=1)
    return np.asarray(rows[~doubtful | (cosines < SAME_SOUND)], np.float32)


def _wrong(sample: Sample, denied: Collection[tuple[float, str]]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.zeros(len(sample.at_s), np.bool_)
    for index, label in enumerate(sample.names):
        found |= (sample.taken == index) & is_denied(sample, label, denied)
    return found


def _noted(state: DeviceState) -> dict[str, float | bool]:
    return dict(state.database.note(ROOM_LEARNED) or {})


def _note(state: DeviceState, at: float, what: str) -> None:
    state.database.set_note(ROOM_LEARNED, {"at": at} | ({what: True} if what else {}))
