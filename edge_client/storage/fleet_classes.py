"""The fleet's classes on this device: what it calls them, and which of those of other devices it listens for.

A device listens for a class of others only if enough different devices sent it, an operator approved it, or its owner
said so; and never where it found that it cannot (edge_client/learning/teaching/trial.py). Until then a class
takes no slot.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_client.storage.database import Database
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.rest import Refusal, Work

_OF_FLEET, _OWN = "class_names", "own_class_names"
_CLASSES, _SAID, _LEARNED, _REFUSED = ("offers", "offers_said", "offers_learned", "offers_refused")


@dataclass(frozen=True)
class Refused:
    """Why a device does not listen for a class that it tried; ``told`` says it to its owner."""

    why: Refusal
    told: str


@dataclass(frozen=True)
class Offer:
    """A class that other devices sent.

    Attributes:
        devices: Number of devices that sent it and mean one sound.
        needed: Number of devices that must have sent it before others listen.
        approved: Whether an operator approved it.
        quarantined: Whether most devices refused it.
        at: When the device first heard of it, seconds since 1970.
        said: Whether the owner wants it; None where he did not say.
        refused: Why this device does not listen, by what it tried; None where nothing speaks against it.
    """

    class_id: str
    name: str
    devices: int
    needed: int
    approved: bool = False
    quarantined: bool = False
    at: float = 0.0
    said: bool | None = None
    refused: Refused | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether enough speaks for it, or its owner wants it."""
        if self.said is not None:
            return self.said
        return self.approved or (self.devices >= self.needed and not self.quarantined)

    @property
    def is_heard(self) -> bool:
        """Whether the device is to listen for it."""
        return self.is_confirmed and self.refused is None

    @property
    def is_asked(self) -> bool:
        """Whether the owner is asked."""
        return self.said is None and not self.is_confirmed and self.devices > 0

    @property
    def question(self) -> str:
        """What the owner is asked."""
        others = "another device teaches" if self.devices == 1 else f"{self.devices} others teach"
        return f"{others} {self.name!r}: listen for it?"

    @property
    def why_silent(self) -> str:
        """Why the device does not listen for it, for its owner; "" where it does."""
        if self.said is False:
            return "you said no"
        if self.refused is not None:
            return self.refused.told
        if self.is_confirmed:
            return ""
        if self.quarantined:
            return "most devices that tried it refused it, and the fleet's operator has yet to look"
        sent = "1 device was" if self.devices == 1 else f"{self.devices} devices were"
        return f"{sent} taught it, and {self.needed} are needed"


class _Notes:
    """Objects that are noted in a device's database. All raise StateError, OSError as :class:`Database` does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _note(self, name: str) -> dict[str, Any]:
        return dict(self._database.note(name) or {})

    def _set(self, name: str, value: Mapping[str, Any]) -> None:
        if dict(value) != self._note(name):
            self._database.set_note(name, dict(value) or None)


class ClassOffers(_Notes):
    """Classes that other devices sent."""

    def follow(self, work: Work) -> None:
        """Take up what the fleet says of its classes now."""
        backing = {one.class_id: one for one in work.backing}
        known = self._note(_CLASSES)
        found: dict[str, list[Any]] = {}
        for info in work.classes:
            if info.discovered_in is not None:
                one = backing.get(info.class_id)
                said = (0, False, False) if one is None else (one.devices, one.approved, one.quarantined)
                at = known[info.class_id][-1] if info.class_id in known else time.time()
                found[info.class_id] = [info.name, work.devices_needed, *said, at]
        self._set(_CLASSES, found)
        for name in (_SAID, _LEARNED, _REFUSED):
            self._set(name, {class_id: value for class_id, value in self._note(name).items() if class_id in found})

    def all(self) -> tuple[Offer, ...]:
        """Return the classes that devices of the fleet sent, in the fleet's order."""
        said, refused, found = self._note(_SAID), self._note(_REFUSED), []
        for class_id, (name, needed, devices, approved, quarantined, at) in self._note(_CLASSES).items():
            one = Offer(class_id, name, devices, needed, approved, quarantined, at, said.get(class_id))
            why, told, *of = refused.get(class_id, ("", ""))
            # Tried again once more devices sent it, or an operator approved it.
            tried = Refused(why, told) if why and of == [one.devices, one.approved] else None
            found.append(dataclasses.replace(one, refused=tried))
        return tuple(found)

    def of_others(self, label_map: LabelMap, own: Container[str]) -> tuple[Offer, ...]:
        """Return those that are none of the owner's own labels."""
        mine = {slot.class_id for slot in label_map.slots if slot.name in own}
        return tuple(one for one in self.all() if one.class_id not in mine)

    def heard(self) -> tuple[str, ...]:
        """Return the classes that the device is to listen for."""
        return tuple(one.class_id for one in self.all() if one.is_heard)

    def silent(self) -> frozenset[str]:
        """Return the classes that the device is not to listen for."""
        return frozenset(one.class_id for one in self.all() if not one.is_heard)

    def said(self) -> dict[str, bool]:
        """Return what the owner said, by class."""
        return self._note(_SAID)

    def say(self, class_id: str, listen: bool | None) -> None:
        """Note what the owner wants; None: what the fleet says decides. What was tried and refused is tried again."""
        others = {one: said for one, said in self.said().items() if one != class_id}
        self._set(_SAID, others if listen is None else others | {class_id: listen})
        self._set(_REFUSED, {one: found for one, found in self._note(_REFUSED).items() if one != class_id})

    def unlearned(self) -> str:
        """Return what the owner said since the model was made, as one text; "" where nothing."""
        said = self.said()
        return "" if said == self._note(_LEARNED) else repr(sorted(said.items()))

    def note_learned(self, said: Mapping[str, bool]) -> None:
        """Note that a model was made with what the owner had said."""
        self._set(_LEARNED, dict(said))

    def note_tried(self, refused: Mapping[str, Refused], tried: Iterable[str]) -> None:
        """Note which classes were refused of those that were tried."""
        now = {one.class_id: one for one in self.all()}
        kept = {class_id: found for class_id, found in self._note(_REFUSED).items() if class_id not in set(tried)}
        new = {
            class_id: [one.why, one.told, now[class_id].devices, now[class_id].approved]
            for class_id, one in refused.items()
            if class_id in now
        }
        self._set(_REFUSED, kept | new)

    def refusals(self) -> dict[str, Refusal]:
        """Return why the device does not listen for classes that it tried, as the fleet is told."""
        return {one.class_id: one.refused.why for one in self.all() if one.refused is not None}

    def forget(self) -> None:
        """Forget all: another fleet has other classes."""
        for name in (_CLASSES, _SAID, _LEARNED, _REFUSED):
            self._set(name, {})


class ClassNames(_Notes):
    """What a device calls the fleet's classes: as its owner chose, else as the fleet's last work did."""

    def present(self) -> dict[str, str]:
        """Return each class's name."""
        return self._note(_OF_FLEET) | self._note(_OWN)

    def follow(self, names: Mapping[str, str], merged: Mapping[str, str]) -> None:
        """Take up how the fleet calls its classes now; ``merged``: by class the one that it became."""
        own = self._note(_OWN)
        moved = {class_id: name for class_id, name in own.items() if class_id not in merged}
        moved = {merged[class_id]: name for class_id, name in own.items() if class_id in merged} | moved
        self._set(_OF_FLEET, dict(names))
        self._set(_OWN, moved)

    def choose(self, class_id: str, name: str | None) -> None:
        """Call a class by the owner's name; None, or the fleet's name: it follows the fleet again."""
        others = {other: own for other, own in self._note(_OWN).items() if other != class_id}
        is_fleets = name is None or self._note(_OF_FLEET).get(class_id) == name
        self._set(_OWN, others if is_fleets else others | {class_id: str(name)})

    def forget(self) -> None:
        """Forget all names: another fleet has other classes."""
        self._set(_OF_FLEET, {})
        self._set(_OWN, {})
