"""Which hearings of a home's ears are one event, and which ear was the best.

Every device gets all messages in the order in which the broker took them, and decides by that order alone; no clock of
another device counts. The first hearing of a label opens a group. Its device says some time later that the group is
over. A hearing before that message belongs to the group; one behind it opens the next group. If the first device is
silent, the next one says it.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edge_client.errors import EdgeError
from fleet_protocol.bounded_json import JsonBounds, parse_json
from fleet_protocol.bundle.labels import is_name
from fleet_protocol.errors import JsonError

Purpose = Literal["event", "wake"]
LARGEST = 2_000
"""Bytes of a message."""
_BOUNDS = JsonBounds(size=LARGEST, values=60, depth=2)
_ID, _NAME = 100, 200
_MOST_GROUPS, _MOST_HEARINGS, _REMEMBERED = 64, 64, 512
# Seconds: between two devices that may say that a group is over; after which a group is over for a device whatever the
# broker does; after which a hearing that never came back from the broker stands alone.
_NEXT_S, _LOST_S, _UNANSWERED_S = 0.3, 5.0, 2.0


class HomeMessageError(EdgeError):
    """A message of the home's topic cannot be used."""


@dataclass(frozen=True)
class Hearing:
    """That one ear heard a label.

    Attributes:
        hearing_id: Unique.
        purpose: Whether it is an event, or a word that a voice assistant waits for: two things that may go on at once.
        label: The owner's name for the sound.
        device: Identifier of the ear's device.
        ear: Identifier of the ear: several are one device's.
        name: Of the ear, for people.
        snr_db: Level above the ear's background, dB.
        level_db: Root mean square of the window, dB full scale.
        score: Averaged score of the label, 0..1.
    """

    hearing_id: str
    purpose: Purpose
    label: str
    device: str
    ear: str
    name: str
    snr_db: float
    level_db: float
    score: float

    def __post_init__(self) -> None:
        texts = {"hearing_id": _ID, "device": _ID, "ear": _ID, "name": _NAME}
        for key, most in texts.items():
            value = getattr(self, key)
            _require(isinstance(value, str) and 1 <= len(value) <= most and value.isprintable(), key, value)
        _require(self.purpose in ("event", "wake"), "purpose", self.purpose)
        _require(isinstance(self.label, str) and is_name(self.label), "label", self.label)
        for key in ("snr_db", "level_db", "score"):
            value = getattr(self, key)
            _require(isinstance(value, (int, float)) and math.isfinite(value) and abs(value) <= 1e3, key, value)

    def to_message(self) -> str:
        """Return the message that says so."""
        return json.dumps({"heard": asdict(self)}, ensure_ascii=False)


@dataclass(frozen=True)
class Over:
    """That a group is over, by the identifier of its first hearing, and which device says so."""

    first: str
    device: str

    def __post_init__(self) -> None:
        for key in ("first", "device"):
            value = getattr(self, key)
            _require(isinstance(value, str) and 1 <= len(value) <= _ID, key, value)

    def to_message(self) -> str:
        """Return the message that says so."""
        return json.dumps({"over": asdict(self)})


@dataclass(frozen=True)
class HomeEvent:
    """What a home heard: one or more hearings of one label, the ear with the best signal-to-noise ratio first."""

    heard: tuple[Hearing, ...]

    @property
    def best(self) -> Hearing:
        """The ear that heard it best."""
        return self.heard[0]

    def to_json(self) -> dict[str, Any]:
        """Return the event JSON-ready."""
        best = self.best
        by = [{"name": one.name, "snr_db": round(one.snr_db, 1), "score": round(one.score, 4)} for one in self.heard]
        return {"label": best.label, "first": best.name, "heard_by": by}


def read_message(payload: bytes) -> Hearing | Over:
    """Return what a message says. Raises HomeMessageError: names what is wrong."""
    try:
        document = parse_json(payload, _BOUNDS, "a message of the home")
    except JsonError as error:
        raise HomeMessageError(str(error)) from error
    if not isinstance(document, Mapping) or len(document) != 1:
        raise HomeMessageError("a message of the home must have one key")
    what, values = next(iter(document.items()))
    kinds: dict[str, type[Hearing] | type[Over]] = {"heard": Hearing, "over": Over}
    if what not in kinds or not isinstance(values, Mapping):
        raise HomeMessageError(f"a message of the home says {what!r:.40}, which nobody knows")
    try:
        return kinds[what](**values)
    except TypeError as error:
        raise HomeMessageError(f"a message of the home is refused: {str(error)[:200]}") from error


@dataclass
class _Group:
    opened_s: float
    heard: list[Hearing] = field(default_factory=list)
    said: bool = False

    def event(self) -> HomeEvent:
        """Return the group's event: of each ear its best hearing; equally good ones in the broker's order."""
        best: dict[str, Hearing] = {}
        for one in self.heard:
            if one.ear not in best or one.snr_db > best[one.ear].snr_db:
                best[one.ear] = one
        return HomeEvent(tuple(sorted(best.values(), key=lambda one: -one.snr_db)))

    def patience_s(self, device: str) -> float:
        """Return how long after the window a device waits for those that heard it before."""
        devices = list(dict.fromkeys(one.device for one in self.heard))
        return _NEXT_S * (devices.index(device) if device in devices else len(devices))


class Arbiter:
    """One device's view of its home. Times are the device's own, seconds since some start."""

    def __init__(self, device: str, window_s: float) -> None:
        self._device, self._window_s = device, window_s
        self._groups: dict[tuple[Purpose, str], _Group] = {}
        self._sent: dict[str, tuple[Hearing, float]] = {}
        self._done: deque[str] = deque(maxlen=_REMEMBERED)

    def sent(self, hearing: Hearing, now_s: float) -> None:
        """Remember that a hearing of this device was sent to the broker."""
        self._sent[hearing.hearing_id] = hearing, now_s

    def hear(self, hearing: Hearing, now_s: float) -> None:
        """Take a hearing from the broker. One that is delivered twice, and more than a home can have, are left out."""
        self._sent.pop(hearing.hearing_id, None)
        if hearing.hearing_id in self._done:
            return  # delivered twice, or so late that it stood alone
        key = hearing.purpose, hearing.label
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _MOST_GROUPS:
                return
            group = self._groups[key] = _Group(now_s)
        if len(group.heard) < _MOST_HEARINGS and all(one.hearing_id != hearing.hearing_id for one in group.heard):
            group.heard.append(hearing)

    def end(self, over: Over) -> HomeEvent | None:
        """Take from the broker that a group is over; return its event, None where it was over already."""
        for key, group in self._groups.items():
            if group.heard[0].hearing_id == over.first:
                return self._settle(key)
        return None

    def to_say(self, now_s: float) -> list[Over]:
        """Return of which groups this device has to say now that they are over, each once."""
        found = []
        for group in self._groups.values():
            if not group.said and now_s >= group.opened_s + self._window_s + group.patience_s(self._device):
                group.said = True
                found.append(Over(group.heard[0].hearing_id, self._device))
        return found

    def lost(self, now_s: float) -> list[HomeEvent]:
        """Return the events that the broker left open: groups nobody ended, and hearings that never came back."""
        late = [key for key, group in self._groups.items() if now_s >= group.opened_s + self._window_s + _LOST_S]
        found = [self._settle(key) for key in late]
        for name, (hearing, since_s) in list(self._sent.items()):
            if now_s >= since_s + self._window_s + _UNANSWERED_S:
                del self._sent[name]
                self._done.append(name)
                found.append(HomeEvent((hearing,)))
        return found

    def pause_s(self, now_s: float) -> float | None:
        """Return after how many seconds to look again; None: only after the next message."""
        due = [
            group.opened_s + self._window_s + (_LOST_S if group.said else group.patience_s(self._device))
            for group in self._groups.values()
        ]
        due += [since_s + self._window_s + _UNANSWERED_S for _, since_s in self._sent.values()]
        return max(0.0, min(due) - now_s) if due else None

    def _settle(self, key: tuple[Purpose, str]) -> HomeEvent:
        group = self._groups.pop(key)
        self._done.extend(one.hearing_id for one in group.heard)
        return group.event()


def _require(allowed: bool, key: str, value: object) -> None:
    if not allowed:
        raise HomeMessageError(f"a message of the home has {key} = {value!r:.60}")
