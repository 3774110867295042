"""Records takes of one sound: listens to the room, counts down, records, says what was wrong, and tries again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from edge_client.capture import AudioSource
from edge_client.capture.cues import Cues
from edge_client.clips.take_check import cut_take, levels_db, room_level_db
from edge_client.errors import TakeError
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings

_ROOM_S = 3.0
_COUNTDOWN = (3, 2, 1)
_COUNT_S = 0.5
_METER_S = 0.1
_TIMEOUT_S = 2.0
# How long a room and a sound card's buffers still give back the cue before a take.
_ECHO_S = 0.3
_MAX_REFUSED = 10


@dataclass(frozen=True)
class Step:
    """A step of a session.

    Attributes:
        kind: The room is heard, a number is counted, a take begins, or it was kept or refused.
        take: Number of the take, from 1; 0 for the room.
        count: Number of takes wanted; 0 for the room.
        number: The number that is counted.
        text: Reason that a take was refused.
    """

    kind: Literal["room", "count", "now", "kept", "refused"]
    take: int = 0
    count: int = 0
    number: int = 0
    text: str = ""


class Display(Protocol):
    """Where a recording session is followed."""

    def step(self, step: Step) -> None:
        """Follow the session step by step, for a display that says everything in its own way."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def level(self, text: str, level_db: float) -> None:
        """Show the present step, and how loud it is."""


class Recorder:
    """One session with one microphone."""

    def __init__(
        self, source: AudioSource, settings: FeatureSettings, display: Display, cues: Cues | None = None
    ) -> None:
        """Prepare; nothing is recorded yet. Without cues a session is silent."""
        self._cues = cues
        self._source = source
        self._settings = settings
        self._display = display
        self._room_db = 0.0

    def hear_room(self) -> Floats:
        """Listen to the room for three seconds: float32 [samples]; takes must stand out from it.

        Raises:
            TakeError: the microphone gave nothing.
        """
        self._display.step(Step("room"))
        self._display.say("Listening to the room. Please be quiet.")
        room = self._read(_ROOM_S, "room")
        if len(room) < self._settings.sample_rate_hz:
            raise TakeError("the microphone gives no sound; `auricle-edge devices` lists and tests what is there")
        self._room_db = room_level_db(room, self._settings.sample_rate_hz)
        self._display.say(f"The room has {self._room_db:.0f} dB.")
        return room

    def record(self, count: int, seconds: float, keep: Callable[[Floats], object]) -> None:
        """Record until enough takes were good.

        Args:
            count: how many.
            seconds: length of a take as it is recorded; it is cut to the sound afterwards.
            keep: stores a good take, float32 [samples].

        Raises:
            TakeError: ten takes in a row were no good.
        """
        kept = refused = 0
        while kept < count:
            title = f"take {kept + 1} of {count}"
            for number in _COUNTDOWN:
                self._display.step(Step("count", kept + 1, count, number))
                self._read(_COUNT_S, f"{title} in {number}")
            self._display.step(Step("now", kept + 1, count))
            self._begin_take(title)
            take = self._read(seconds, title)
            try:
                clip = cut_take(take, self._samples(seconds), self._room_db, self._settings)
            except TakeError as error:
                self._end_take(kept=False)
                refused += 1
                self._display.step(Step("refused", kept + 1, count, text=str(error)))
                self._display.say(f"{title}: refused, {error}")
                if refused == _MAX_REFUSED:
                    raise TakeError(
                        f"{refused} takes in a row were refused, the last one because: {error}. {kept} were kept"
                    ) from error
                continue
            keep(clip)
            kept, refused = kept + 1, 0
            self._display.step(Step("kept", kept, count))
            loudest = levels_db(clip, self._settings.sample_rate_hz).max()
            self._display.say(f"{title}: kept, {loudest:.0f} dB")
            self._end_take(kept=True)

    def _begin_take(self, title: str) -> None:
        if self._cues is not None:
            self._cues.before()
            if self._cues.problem:
                self._display.say(f"No sound can be played here ({self._cues.problem}); watch this screen instead.")
                self._cues = None
        self._display.say(f"{title}: now!")
        if self._cues is not None:
            self._read(_ECHO_S, title)
        self._source.read(self._samples(60.0), 0.0)  # what waits was heard before

    def _end_take(self, *, kept: bool) -> None:
        if self._cues is not None:
            self._cues.after(kept=kept)

    def _samples(self, seconds: float) -> int:
        return round(seconds * self._settings.sample_rate_hz)

    def _read(self, seconds: float, title: str) -> Floats:
        """Read for so long and show the level meanwhile; less where the microphone falls silent."""
        parts, missing = [np.zeros(0, np.float32)], self._samples(seconds)
        while missing > 0:
            part = self._source.read(min(missing, self._samples(_METER_S)), _TIMEOUT_S)
            if not len(part):
                break
            parts.append(part)
            missing -= len(part)
            levels = levels_db(part, self._settings.sample_rate_hz)
            if len(levels):
                self._display.level(title, float(levels.max()))
        return np.concatenate(parts)
