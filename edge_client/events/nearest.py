"""Which of several devices that heard one sound was nearest: the one that heard it loudest above its own noise.

Every device sends what it heard to one topic of the broker, which gives all devices the same messages in the same
order. The device whose message came first waits for the others and decides; where it is gone, the next one does. Only
times of receipt count, on the clock of the one that receives, so devices' clocks may be anywhere.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

# How far apart the messages of one sound may come: a second, and what detectors and networks differ by, s.
WINDOW_S = 1.5
# How long the next device in turn waits for the one before it, s.
_TURN_S = 1.0
_MOST_LABELS, _MOST_PENDING = 64, 32
_LENGTHS = {"id": 80, "device": 40, "name": 100, "input": 40, "label": 200, "class_id": 100}
_LOUDEST_DB = 200.0


@dataclass(frozen=True)
class Hearing:
    """What one device says that it heard.

    Attributes:
        id: Unlike any other's.
        device: Identifier of the device.
        name: The device's name, for people.
        input: Its microphone or stream; "" where it has one.
        label: Its owner's word.
        class_id: The fleet's class; "" where the fleet has none.
        above_noise_db: Level of the sound above the noise floor there, dB.
    """

    id: str
    device: str
    name: str
    input: str
    label: str
    class_id: str
    above_noise_db: float

    @property
    def sound(self) -> tuple[str, str]:
        """What tells whether two devices can mean the same sound: the class, or else the word."""
        return ("class", self.class_id) if self.class_id else ("label", self.label.casefold())

    @classmethod
    def read(cls, document: object) -> Hearing:
        """Return what a message says. Raises ValueError if it says nothing that can be used."""
        if not isinstance(document, dict) or document.keys() != {field.name for field in fields(cls)}:
            raise ValueError("it has other keys")
        for key, longest in _LENGTHS.items():
            if not isinstance(document[key], str) or len(document[key]) > longest:
                raise ValueError(f"{key} is no text of at most {longest} characters")
        level = document["above_noise_db"]
        if type(level) not in (int, float) or not math.isfinite(level) or abs(level) > _LOUDEST_DB:
            raise ValueError("above_noise_db is no level")
        return cls(**document)


@dataclass
class _Waiting:
    hearing: Hearing
    at_s: float


class Election:
    """What is heard and not yet decided, as one device sees it; times are its own, in seconds."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._sent_s: dict[str, float] = {}
        self._decided_s: dict[tuple[str, str], float] = {}
        self._waiting: dict[tuple[str, str], list[_Waiting]] = {}

    @property
    def waits(self) -> bool:
        """Whether there is anything to decide."""
        return bool(self._waiting)

    def sent(self, hearing: Hearing, now_s: float) -> None:
        """Note that a message of this device went to the broker, before it comes back."""
        self._sent_s[hearing.id] = now_s
        for old in list(self._sent_s)[:-_MOST_PENDING]:
            del self._sent_s[old]

    def heard(self, hearing: Hearing, now_s: float) -> bool:
        """Take a message, this device's own ones too; return False for an own one that came too late.

        It is too late if the sound was decided while the message was on its way: it would be a second sound.
        """
        sent_s = self._sent_s.pop(hearing.id, None)
        if sent_s is not None and self._decided_s.get(hearing.sound, -math.inf) >= sent_s:
            return False
        if hearing.sound not in self._waiting and len(self._waiting) >= _MOST_LABELS:
            del self._waiting[next(iter(self._waiting))]
        waiting = self._waiting.setdefault(hearing.sound, [])
        waiting.append(_Waiting(hearing, now_s))
        del waiting[:-_MOST_PENDING]
        return True

    def decided(self, ids: frozenset[str], now_s: float, *, late: bool = False) -> None:
        """Take what some device decided, or said came too late: these messages wait no longer."""
        for sound, waiting in list(self._waiting.items()):
            left = [one for one in waiting if one.hearing.id not in ids]
            if len(left) < len(waiting):
                if not late:
                    self._decided_s.pop(sound, None)  # so that the newest stands last
                    self._decided_s[sound] = now_s
                self._keep(sound, left)
        for old in list(self._decided_s)[:-_MOST_LABELS]:
            del self._decided_s[old]

    def due(self, now_s: float) -> list[list[Hearing]]:
        """Return the sounds that this device has to decide now: the messages of each."""
        found = []
        for sound, waiting in list(self._waiting.items()):
            first = waiting[0].at_s
            group = [one for one in waiting if one.at_s - first <= WINDOW_S]
            turn = next((turn for turn, one in enumerate(group) if one.hearing.device == self._device), None)
            waited = now_s - first - WINDOW_S
            if turn is not None and waited >= turn * _TURN_S:
                found.append([one.hearing for one in group])
            elif turn is None and waited >= len(group) * _TURN_S:  # all who heard it are gone
                self._keep(sound, waiting[len(group) :])
        return found

    def _keep(self, sound: tuple[str, str], waiting: list[_Waiting]) -> None:
        if waiting:
            self._waiting[sound] = waiting
        else:
            del self._waiting[sound]


def nearest(group: list[Hearing]) -> Hearing:
    """Return which of several devices heard a sound loudest above its noise; of equals always the same one."""
    return max(group, key=lambda one: (one.above_noise_db, one.id))


class NearestDevice:
    """One device's part in finding the nearest; :meth:`take` for the broker's thread, everything else for any."""

    def __init__(self, device: str, send: Callable[[str, dict[str, Any]], None]) -> None:
        """Begin. ``send``: publishes a document under ``heard`` or ``""``, the topic of the results."""
        self._device, self._send = device, send
        self._election = Election(device)
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="nearest device", daemon=True)
        self._thread.start()

    def tell(self, hearing: Hearing) -> None:
        """Tell the others what this device heard."""
        with self._changed:
            self._election.sent(hearing, time.monotonic())
        self._send("heard", asdict(hearing))

    def take(self, document: object) -> None:
        """Take a message of any device. Raises ValueError if it says nothing that can be used."""
        if isinstance(document, dict) and "ids" in document:
            ids = document["ids"]
            if not isinstance(ids, list) or len(ids) > _MOST_PENDING or not all(isinstance(one, str) for one in ids):
                raise ValueError("ids is no list of texts")
            with self._changed:
                self._election.decided(frozenset(ids), time.monotonic(), late="device" not in document)
            return
        hearing = Hearing.read(document)
        with self._changed:
            in_time = self._election.heard(hearing, time.monotonic())
            self._changed.notify()
        if not in_time:
            self._send("heard", {"ids": [hearing.id]})

    def close(self) -> None:
        """Decide nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(0.1 if self._election.waits else None)
                if self._closed:
                    return
                groups = self._election.due(time.monotonic())
                for group in groups:
                    self._election.decided(frozenset(one.id for one in group), time.monotonic())
            for group in groups:
                self._send("", _result(group))


def _result(group: list[Hearing]) -> dict[str, Any]:
    found = asdict(nearest(group))
    del found["id"]
    return {**found, "class_id": found["class_id"] or None, "heard_by": len(group), "ids": [one.id for one in group]}
