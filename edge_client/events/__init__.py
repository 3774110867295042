"""What the device heard, and where the news of it goes: the journal, standard output, an MQTT broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from edge_client.pauses import Pause
    from fleet_protocol.numbers.arrays import Floats

Document = dict[str, str | float | None]
"""An event as JSON has it."""


@dataclass(frozen=True)
class Event:
    """A sound that was heard.

    Attributes:
        time: Time of the event, in seconds since 1970, UTC.
        kind: Whether the device knows the sound.
        label: The owner's name for the sound; ``unknown`` for an unknown sound.
        class_id: The fleet's class of the label; None where the fleet does not know it.
        score: Averaged score of the label, or the best one that an unknown sound reached, 0..1.
        level_db: Root mean square of the window, dB full scale.
        ended: Until when an everyday sound was heard, as ``time``; None while it lasts, and of a word, without length.
        input: Name of the microphone or stream that gave the sound; "" where the device has one alone.
        guess: What an unknown sound may be, the likeliest first, with commas between; "" where there is no guess.
    """

    time: float
    kind: Literal["detected", "unknown"]
    label: str
    class_id: str | None
    score: float
    level_db: float
    ended: float | None = None
    input: str = ""
    guess: str = ""

    @property
    def lasted_s(self) -> float | None:
        """How long the sound was heard, s; None where it has no end."""
        return None if self.ended is None else max(0.0, self.ended - self.time)

    def to_json(self) -> Document:
        """Return the event JSON-ready, its times in ISO 8601; without end, input and guess, where it has none."""
        found: Document = {"time": iso(self.time), "kind": self.kind, "label": self.label, "class_id": self.class_id}
        found |= {"score": round(self.score, 4), "level_db": round(self.level_db, 1)}
        if self.input:
            found["input"] = self.input
        if self.guess:
            found["guess"] = self.guess
        return found if self.ended is None else found | {"ended": iso(self.ended)}

    def to_end_json(self) -> Document:
        """Return what says that the sound is over, JSON-ready: the event, of the kind ``ended``."""
        return {**self.to_json(), "kind": "ended"}


def iso(seconds: float) -> str:
    """Return a time in seconds since 1970 as ISO 8601 has it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Heard:
    """An event with its sound, float32 [samples], on the way to the owner. A sink gets the event alone.

    The sound of a detected word also holds what it may have begun in.
    """

    event: Event
    sound: Floats


@dataclass(frozen=True)
class Asked:
    """A question to the owner: was a sound, of a time in seconds since 1970, this label?

    ``detected`` says whether it was detected, or only nearly; ``score`` is the label's, 0..1.
    """

    question_id: str
    time: float
    label: str
    detected: bool
    score: float
    words: str = ""  # the question itself, where it is another one
    guess: str = ""  # what else it may be, as of an event

    def to_json(self) -> dict[str, str | float | bool]:
        """Return the question JSON-ready."""
        said = {"id": self.question_id, "time": iso(self.time), "label": self.label}
        guess = {"guess": self.guess} if self.guess else {}
        return {**said, "detected": self.detected, "score": round(self.score, 4), **guess}


@dataclass(frozen=True)
class Switch:
    """What somebody switched: whether a label is listened for, or, without one, whether the device is paused.

    ``for_s``: how long it is to be paused; None: without an end.
    """

    on: bool
    label: str = ""
    for_s: float | None = None


@dataclass(frozen=True)
class Health:
    """How the device is.

    Attributes:
        listening: Whether its microphone gives sound that is classified.
        problem: Reason that it does not do its work; "" where it does.
        error: The last failure, though it may be over; "" where there was none.
        started: When the daemon started, in seconds since 1970, UTC.
        versions: Versions of the device's parts, for people, by ``auricle``, ``bundle`` and ``runtime``.
    """

    listening: bool
    problem: str
    error: str
    started: float
    versions: Mapping[str, str]


class Sink:
    """A receiver of events. Nothing that it does may wait; trouble outside is logged, never raised."""

    def publish(self, event: Event) -> None:
        """Take an event."""
        raise NotImplementedError

    def follow(self, event: Event) -> None:
        """Take an event whose everyday sound goes on (every few seconds) or is over (``ended``)."""

    def level(self, heard_by: str, level_db: float, seconds: float) -> None:
        """Take the level, dB full scale, that an input had for some seconds; called several times a second."""

    def announce(self, labels: Sequence[str]) -> None:
        """Take which labels the device knows from now on."""

    def report(self, health: Health) -> None:
        """Take how the device is; called every few seconds."""

    def ask(self, questions: Sequence[Asked]) -> None:
        """Take the questions that are open now, the newest first."""

    def pause(self, pause: Pause | None) -> None:
        """Take why the device does not listen from now on; None: it does."""

    def switched_off(self, labels: Collection[str]) -> None:
        """Take the labels that their owner does not have listened for."""

    def stored(self) -> dict[str, Any] | None:
        """Say how the storing of events goes, JSON-ready; None of a sink that stores none.

        ``trouble``: why they cannot be stored now, "" where they can; ``lost``: how many are lost.
        """

    def trouble(self) -> str | None:
        """Say why that is not reached to which events are sent, "" where it is; None of a sink that sends none."""

    def close(self) -> None:
        """Finish what was taken, within a few seconds."""
