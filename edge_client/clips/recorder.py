"""A recording session: takes of one sound, from the microphone that the daemon lends into the store.

It listens to the room, counts down, records, says what was wrong, and tries again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.level import FRAME_S, levels_db, require_unclipped
from edge_client.audio.recordings import longest_take_s, whole_stretch
from edge_client.capture import AudioSource
from edge_client.capture.microphone import Microphone
from edge_client.capture.playback import Cues
from edge_client.capture.shared_microphone import borrowed_microphone
from edge_client.clips.folders import Clip
from edge_client.clips.store import ClipStore
from edge_client.config import Config
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import ClipError, TakeError
from edge_client.pauses import Pauses
from edge_client.storage.database import FILE, Database
from edge_client.storage.owner_acts import Act, Move, OwnerActs
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Doubles, Floats

# A sound must stand out from the room by so much, and reaches as far as it is that far below its loudest moment.
_ABOVE_ROOM_DB = 10.0
_BELOW_PEAK_DB = 30.0
_QUIETEST_DB = -55.0
_SHORTEST_S = 0.05
_MARGIN_S = 0.1
# A sound that reaches into so much of a take's begin or end is cut off there, up to a pause of so long; a take goes on
# until it was quiet for so long.
_EDGE_S, _PAUSE_S, _QUIET_S = 0.03, 0.2, 0.15
_ROOM_S = 3.0
_COUNTDOWN = (3, 2, 1)
_COUNT_S = 0.5
_METER_S = 0.1
_TIMEOUT_S = 2.0
# How long a room and a sound card's buffers still give back the cue before a take.
_ECHO_S = 0.3
_MAX_REFUSED = 10
_WIDTH = 30
_LOWEST_DB = -60.0
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
    with borrowed_microphone(config.device.state), store.changing():
        pauses.require_awake()
        with closing(Microphone(microphone, rate)) as source:
            recorder = Recorder(source, settings, display, cues, pauses.require_awake)
            store.add_background(recorder.hear_room(), rate, settings.clip_s)
            takes = Takes(store, OwnerActs(database), label, rate)
            recorder.record(count, seconds, takes.keep, takes.discard)


def room_level_db(samples: Floats, rate_hz: int) -> float:
    """Return the usual level of a room in which nothing happens, in dB full scale: the median of its 10 ms."""
    return float(np.median(levels_db(samples, rate_hz)))


def cut_take(samples: Floats, wanted: int, room_db: float, settings: FeatureSettings) -> Floats:
    """Cut a take, float32 [samples], to the sound in it: a clip at least, or all of a take that is shorter.

    What surrounds the sound is cut off up to a clip's length, not beyond: filled up with digital silence, a clip would
    differ from all that the device will ever hear. What is said is kept whole; of another sound that is longer than a
    clip the loudest one. Raises TakeError if the take is incomplete, clipped, silent or too short, or cuts off what
    would be kept; says which, and what to do.
    """
    rate = settings.sample_rate_hz
    if len(samples) < 0.95 * wanted:
        raise TakeError(f"the microphone gave {len(samples) / rate:.1f} s instead of {wanted / rate:.1f} s")
    require_unclipped(samples)
    levels = levels_db(samples, rate)
    peak = float(levels.max())
    if peak < max(_QUIETEST_DB, room_db + _ABOVE_ROOM_DB):
        raise TakeError(f"too quiet: {peak:.0f} dB at its loudest, and the room has {room_db:.0f} dB; come closer")
    sounds = levels >= _sound_from(levels, room_db)
    active = np.flatnonzero(sounds)
    if len(active) * FRAME_S < _SHORTEST_S:
        raise TakeError(f"too short: only {1e3 * len(active) * FRAME_S:.0f} ms of it stand out from the room")
    longest_s = longest_take_s(settings)
    if _is_cut_off(sounds, longest_s):
        raise TakeError("cut off: the sound had begun before the take did; begin when it says now")
    if _is_cut_off(sounds[::-1], longest_s):
        raise TakeError("cut off: the sound went on when the take was over; begin sooner")
    frame, margin = round(FRAME_S * rate), round(_MARGIN_S * rate)
    begin, end = int(active[0]) * frame - margin, (int(active[-1]) + 1) * frame + margin
    missing = max(0, settings.clip_samples - (end - begin))
    begin = max(0, begin - missing // 2)
    end = min(len(samples), max(end, begin + settings.clip_samples))
    begin = max(0, min(begin, end - settings.clip_samples))
    kept = samples[begin:end]
    begin, end = whole_stretch(kept, settings)
    return kept[begin:end]


def _sound_from(levels: Doubles, room_db: float) -> float:
    """Return the level, dB full scale, from which a take's 10 ms belong to the sound in it and not to the room."""
    return max(room_db + _ABOVE_ROOM_DB, float(levels.max()) - _BELOW_PEAK_DB)


def _is_cut_off(sounds: NDArray[np.bool_], longest_s: float) -> bool:
    """Return whether the sound at the begin of bool [10 ms] is cut off: less than so much of it is there."""
    active = np.flatnonzero(sounds)
    if active[0] * FRAME_S >= _EDGE_S:
        return False
    pauses = np.flatnonzero(np.diff(active) * FRAME_S > _PAUSE_S)
    frames = int(pauses[0]) + 1 if len(pauses) else len(active)
    return frames * FRAME_S >= _SHORTEST_S and float(active[frames - 1] + 1) * FRAME_S < longest_s


@dataclass(frozen=True)
class Step:
    """A step of a session. ``take``: Number of the take, from 1; 0, as ``count``, for the room.

    ``discarded``: the take of this number is none any more, and those behind it have one less.
    """

    kind: Literal["room", "count", "now", "kept", "refused", "discarded"]
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

    def unwanted(self) -> int:
        """Return the number of a take that is not wanted, once; 0: all are."""


class Recorder:
    """One session with one microphone."""

    def __init__(
        self,
        source: AudioSource,
        settings: FeatureSettings,
        display: Display,
        cues: Cues | None = None,
        require_awake: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare. ``require_awake`` raises where the device is paused, at which the session ends."""
        self._source, self._settings, self._require_awake = source, settings, require_awake
        self._display, self._cues = display, cues
        self._room_db = 0.0

    def hear_room(self) -> Floats:
        """Listen to the room for three seconds: float32 [samples]. Raises TakeError if the microphone gave nothing."""
        self._display.step(Step("room"))
        self._display.say("Listening to the room. Please be quiet.")
        room = self._read(_ROOM_S, "room")
        if len(room) < self._settings.sample_rate_hz:
            why = self._source.trouble or "`auricle-edge devices` lists what is there"
            raise TakeError(f"the microphone gives no sound: {why}")
        self._room_db = room_level_db(room, self._settings.sample_rate_hz)
        self._display.say(f"The room has {self._room_db:.0f} dB.")
        return room

    def record(
        self,
        count: int,
        seconds: float,
        keep: Callable[[Floats], object],
        discard: Callable[[int], object] = lambda _take: None,
    ) -> None:
        """Record until enough takes were good. Raises TakeError if ten takes in a row were no good.

        ``keep`` stores a good take, float32 [samples]: of ``seconds`` that were recorded, what was cut to the sound;
        ``discard`` removes the take of a number, from 1; those behind it have one less then.
        """
        kept = refused = 0
        while (kept := self._discard(kept, count, discard)) < count:
            title = f"take {kept + 1} of {count}"
            for number in _COUNTDOWN:
                self._display.step(Step("count", kept + 1, count, number))
                self._read(_COUNT_S, f"{title} in {number}")
            if (left := self._discard(kept, count, discard)) < kept:
                kept = left
                continue
            self._display.step(Step("now", kept + 1, count))
            self._begin_take(title)
            take = self._read_to_its_end(seconds, title)
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

    def _discard(self, kept: int, count: int, discard: Callable[[int], object]) -> int:
        """Discard the takes that are not wanted; return how many are left."""
        while take := self._display.unwanted():
            if take <= kept:
                discard(take)
                kept -= 1
                self._display.step(Step("discarded", take, count))
                self._display.say(f"take {take} of {count} is discarded")
        return kept

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

    def _read_to_its_end(self, seconds: float, title: str) -> Floats:
        """Read for so long, and on while the sound goes on: for as long as a take at most."""
        rate, take = self._settings.sample_rate_hz, self._read(seconds, title)
        longest = self._samples(seconds + longest_take_s(self._settings))
        while self._samples(seconds) <= len(take) < longest:
            levels = levels_db(take, rate)
            if levels[-round(_QUIET_S / FRAME_S) :].max() < _sound_from(levels, self._room_db):
                break
            more = self._read(_METER_S, title)
            if not len(more):
                break
            take = np.concatenate([take, more])
        return take

    def _read(self, seconds: float, title: str) -> Floats:
        """Read for so long and show the level meanwhile; less where the microphone falls silent."""
        parts, missing = [np.zeros(0, np.float32)], self._samples(seconds)
        while missing > 0:
            self._require_awake()
            part = self._source.read(min(missing, self._samples(_METER_S)), _TIMEOUT_S)
            if not len(part):
                break
            parts.append(part)
            missing -= len(part)
            levels = levels_db(part, self._settings.sample_rate_hz)
            if len(levels):
                self._display.level(title, float(levels.max()))
        return np.concatenate(parts)


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


class Lines:
    """A :class:`edge_client.clips.recorder.Display` for pipes and logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def step(self, step: Step) -> None:
        """Do nothing: every step is said as well."""

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=self._out, flush=True)

    def level(self, text: str, level_db: float) -> None:
        """Show nothing: a line for every tenth of a second would help nobody."""

    def unwanted(self) -> int:
        """Return 0: `auricle-edge clips undo` takes a session back, `clips delete` a take."""
        return 0


class LevelMeter(Lines):
    """A :class:`edge_client.clips.recorder.Display` for terminals: one line that is drawn again and again."""

    def say(self, text: str) -> None:
        """Write a line in place of the meter."""
        super().say(f"\r\x1b[K{text}")

    def level(self, text: str, level_db: float) -> None:
        """Draw the meter."""
        print(f"\r\x1b[K{bar(level_db)} {level_db:4.0f} dB  {text}", end="", file=self._out, flush=True)


def bar(level_db: float) -> str:
    """Return a bar that is empty at -60 dB and full at 0 dB."""
    filled = round(_WIDTH * min(1.0, max(0.0, 1.0 - level_db / _LOWEST_DB)))
    return "[" + "#" * filled + " " * (_WIDTH - filled) + "]"


def display_for(out: TextIO) -> Lines:
    """Return what suits a stream."""
    return LevelMeter(out) if out.isatty() else Lines(out)
