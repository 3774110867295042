"""Labels: which words can be one, and which slot of a model's head is which class (docs/architecture.md).

A head has a fixed capacity; a mask switches slots on. A device gives a new sound a slot at once, offline: the
slot then has the owner's name and no class. When the aggregator recognises the class, the slot is linked to it.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fleet_protocol.errors import LabelError
from fleet_protocol.numbers.arrays import Floats

# Ranges of fixed characters, so that a device and a server of other Python versions, which know other characters,
# agree. Control characters and surrogates; what ends lines; what turns the direction of writing.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BLANKS = re.compile("[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
# What joins other characters, and shows nothing by itself.
_UNSEEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff]")


def normal_name(text: str) -> str:
    """Return a name as it is stored, however it was typed: composed (NFC), each row of blanks one space."""
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text)).strip(" ")


def is_name(text: str) -> bool:
    """Return whether a text can be the name of something: it shows something, and nothing in it harms a terminal.

    What joins letters or emoji, as in Persian and Hindi, is allowed; so is what this Python does not know yet.
    """
    return _REFUSED.search(text) is None and bool(_UNSEEN.sub("", text).strip(" "))


@dataclass(frozen=True)
class Slot:
    """One class of a device's model: the owner's name for it, and the fleet's class once that is known."""

    name: str
    class_id: str | None = None


def _is_same(old: Slot, new: Slot) -> bool:
    return old.name == new.name or (old.class_id is not None and old.class_id == new.class_id)


def _given_up(number: int) -> Slot:
    """Return what stands in a slot whose label was given up: a name that no label can have, for labels are folders."""
    return Slot(f"/{number}")


@dataclass(frozen=True)
class LabelMap:
    """Slots 0..n-1 of a head with ``capacity`` outputs. Immutable: every change returns a new map."""

    capacity: int  # Outputs of the head
    slots: tuple[Slot, ...] = ()  # Slots that are labels, in order; and those given up, off until they are used again
    reserved: int = 0  # Outputs at the head's end that never become labels (``Manifest.background``)
    off: tuple[int, ...] = ()  # Slots that are not used, as the weights never learned them; not in :meth:`to_json`

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise LabelError(f"a head's capacity must be at least 1, not {self.capacity}")
        if len(self.slots) > self.free:
            raise LabelError(
                f"{len(self.slots)} labels do not fit a head of capacity {self.free}: "
                "build the bundle with a larger --capacity"
            )
        for kind, values in (("label", self.names), ("class", self.class_ids)):
            twice = [value for value in values if value is not None and values.count(value) > 1]
            if twice:
                raise LabelError(f"{kind} {twice[0]!r} has two slots; names and classes are unique in a label map")

    @property
    def free(self) -> int:
        """How many labels the head has room for."""
        return self.capacity - self.reserved

    @property
    def background(self) -> tuple[int, ...]:
        """The outputs that stand for what is no label, `_other_` and `_nothing_` last; or none."""
        return tuple(range(self.free, self.capacity))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The owner's names in slot order."""
        return tuple(slot.name for slot in self.slots)

    @cached_property
    def given_up(self) -> tuple[int, ...]:
        """The slots whose label was given up."""
        return tuple(number for number, slot in enumerate(self.slots) if slot == _given_up(number))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, without slots that were given up."""
        return tuple(slot.name for number, slot in enumerate(self.slots) if number not in self.given_up)

    @property
    def room(self) -> int:
        """For how many more labels there is a slot."""
        return self.free - len(self.slots) + len(self.given_up)

    @cached_property
    def class_ids(self) -> tuple[str | None, ...]:
        """The fleet's class of every slot, in slot order; None where the fleet does not know it yet."""
        return tuple(slot.class_id for slot in self.slots)

    @property
    def mask(self) -> Floats:
        """float32 [capacity]: 1 where a slot is in use, and not off."""
        mask = np.zeros(self.capacity, np.float32)
        mask[: len(self.slots)] = 1.0
        mask[[*self.off, *self.given_up]] = 0.0
        return mask

    @property
    def listening_mask(self) -> Floats:
        """float32 [capacity]: as :attr:`mask`, and 1 at the outputs for what is no label."""
        mask = self.mask
        mask[self.free :] = 1.0
        return mask

    def slot_of(self, name: str) -> int:
        """Return the slot of a label. Raises LabelError: the map does not know the label."""
        if name not in self.names:
            raise LabelError(f"no slot is called {name!r}; known: {', '.join(self.names) or 'none'}")
        return self.names.index(name)

    def slot_of_class(self, class_id: str) -> int | None:
        """Return the slot that is linked to a class of the fleet, or None."""
        return self.class_ids.index(class_id) if class_id in self.class_ids else None

    def add(self, name: str, class_id: str | None = None) -> LabelMap:
        """Give a new label the next free slot, or where the head is full, one that was given up."""
        if name in self.names:
            raise LabelError(f"label {name!r} has slot {self.slot_of(name)} already")
        if len(self.slots) == self.free and self.given_up:
            return self.put(self.given_up[0], name, class_id)
        return dataclasses.replace(self, slots=(*self.slots, Slot(name, class_id)))

    def put(self, slot: int, name: str, class_id: str | None) -> LabelMap:
        """Replace the label and class of a slot."""
        return self._with(slot, Slot(name, class_id))

    def give_up(self, slot: int) -> LabelMap:
        """Switch a slot off, so that another label can have it."""
        return self._with(slot, _given_up(slot))

    def new_since(self, before: LabelMap) -> tuple[int, ...]:
        """Return the slots that are labels now and were none, or another sound's, in an earlier map of the same head.

        A slot whose name and class both changed is another sound's.
        """
        pairs = enumerate(zip(before.slots, self.slots, strict=False))
        same = {number for number, (old, new) in pairs if _is_same(old, new)}
        return tuple(sorted(set(range(len(self.slots))) - (same - set(before.given_up)) - set(self.given_up)))

    def _with(self, number: int, slot: Slot) -> LabelMap:
        return dataclasses.replace(self, slots=(*self.slots[:number], slot, *self.slots[number + 1 :]))

    def link(self, slot: int, class_id: str) -> LabelMap:
        """Say which class of the fleet a slot is; another slot that was this class is none any more."""
        if not 0 <= slot < len(self.slots):
            raise LabelError(f"slot {slot} is not in use; in use: 0 to {len(self.slots) - 1}")
        slots = [Slot(other.name) if other.class_id == class_id else other for other in self.slots]
        slots[slot] = Slot(slots[slot].name, class_id)
        return dataclasses.replace(self, slots=tuple(slots))

    def adopt(self, classes: Iterable[tuple[str, str]]) -> LabelMap:
        """Give every (class, name) that the map lacks a slot.

        An unlinked slot of the same name becomes that class: owner and fleet speak of the same thing. A name that
        is taken by another class gets the class in brackets.
        """
        result = self
        for class_id, name in classes:
            if class_id in result.class_ids:
                continue
            if name in result.names and result.slots[result.slot_of(name)].class_id is None:
                result = result.link(result.slot_of(name), class_id)
            else:
                result = result.add(f"{name} ({class_id})" if name in result.names else name, class_id)
        return result

    def to_json(self) -> dict[str, object]:
        """Return a JSON-ready form that :meth:`from_json` reads."""
        reserved = {"reserved": self.reserved} if self.reserved else {}
        slots = [{"name": slot.name, "class_id": slot.class_id} for slot in self.slots]
        return {"capacity": self.capacity, "slots": slots, **reserved}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> LabelMap:
        """Read what :meth:`to_json` wrote. Raises LabelError: the document is not a label map."""
        capacity, slots, reserved = document.get("capacity"), document.get("slots"), document.get("reserved", 0)
        if not isinstance(capacity, int) or not isinstance(slots, list) or not isinstance(reserved, int):
            raise LabelError(f"not a label map: {document!r}")
        try:
            return cls(capacity, tuple(Slot(str(slot["name"]), slot["class_id"]) for slot in slots), reserved)
        except (KeyError, TypeError) as error:
            raise LabelError(f"not a label map: {document!r}") from error
