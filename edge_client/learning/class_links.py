"""From the fleet's classes to the slots of the device's own labels, and to those of the shared model.

In the shared model slot k is the k-th class of the fleet, on every device; labels that are no class yet come after
these, new sounds of the round first. A device's own label map has the order in which its owner taught it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.bundle.bundle_file import Layer
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.errors import LabelError
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages.rest import ClassAssignment, ClassInfo, Work
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays

log = logging.getLogger(__name__)


def take_labels(label_map: LabelMap, labels: Sequence[str], classes: Iterable[ClassInfo]) -> LabelMap:
    """Give every label that the owner taught a slot; one that the fleet knows by that name is linked to it.

    A class that another label was linked to goes to the label of its name when the other has no clips any more: the
    owner has renamed them. Where the head is full, a class that only others have clips of makes room. Raises LabelError
    if there is none.
    """
    known = {info.name: info.class_id for info in classes}
    for label in labels:
        if label not in label_map.names:
            label_map = _with_room(label_map, labels).add(label)
        slot, class_id = label_map.slot_of(label), known.get(label)
        if class_id is None or label_map.slots[slot].class_id is not None:
            continue
        holder = label_map.slot_of_class(class_id)
        if holder is None or label_map.names[holder] not in labels:
            label_map = label_map.link(slot, class_id)
    return label_map


def _with_room(label_map: LabelMap, labels: Collection[str]) -> LabelMap:
    """Give up a class that no label of the owner is, the newest, where there is no free slot."""
    of_others = [n for n, slot in enumerate(label_map.slots) if slot.class_id is not None and slot.name not in labels]
    if label_map.room or not of_others:
        return label_map
    log.warning("the fleet's %r makes room for a sound of the owner's", label_map.names[of_others[-1]])
    return label_map.give_up(of_others[-1])


def without_silent(label_map: LabelMap, silent: Container[str], labels: Container[str]) -> LabelMap:
    """Give up the slots of classes that the device is not to listen for; ``labels`` are the owner's own."""
    for number, slot in enumerate(label_map.slots):
        if slot.class_id is not None and slot.class_id in silent and slot.name not in labels:
            label_map = label_map.give_up(number)
    return label_map


def link_recognised(label_map: LabelMap, assignments: Iterable[ClassAssignment]) -> LabelMap:
    """Link the slots of new sounds that the aggregator recognised.

    A class keeps the slot that it has: an owner who calls it by two names can give its clips one. A slot that the
    device does not use is left out: it began anew after it had reported the sound, or the aggregator errs.
    """
    for assignment in assignments:
        if assignment.slot >= len(label_map.slots):
            log.warning("the fleet speaks of slot %d, which this device does not use", assignment.slot)
            continue
        holder = label_map.slot_of_class(assignment.class_id)
        if holder is None:
            label_map = label_map.link(assignment.slot, assignment.class_id)
        elif holder != assignment.slot:
            names = label_map.names[assignment.slot], label_map.names[holder]
            said = (
                "the fleet takes %r for %r, which this device has a slot for; if they are the same sound, give the "
                "clips that name: auricle-edge clips relabel --label OLD NEW"
            )
            log.info(said, *names)
    return label_map


def adopt_classes(label_map: LabelMap, classes: Iterable[ClassInfo]) -> LabelMap:
    """Give the classes that the map lacks a slot, in their order, as many as there is room for."""
    left_out = []
    for info in classes:
        known = info.class_id in label_map.class_ids
        unlinked_name = any(slot.name == info.name and slot.class_id is None for slot in label_map.slots)
        if label_map.room or known or unlinked_name:
            label_map = label_map.adopt([(info.class_id, info.name)])
        else:
            left_out.append(info.name)
    if left_out:
        log.warning("the model's head has no slot left for the fleet's %s", ", ".join(left_out))
    return label_map


def follow_fleet(label_map: LabelMap, work: Work, labels: Collection[str]) -> LabelMap:
    """Follow what an operator did to classes that slots are linked to; the work has the fleet's, and what became of
    others.

    - Of a merged class: its slot is linked to what the class is now. Where both had a slot, the one with clips stays.
    - Of any class that is gone: a label without clips is given up, and another sound can have its slot.
    - A label with clips stays its owner's. That of a class that was retired keeps the link, so that it is not reported
      again. That of a class which the fleet knows no more, such as one whose round was undone, is a new sound again.
    """
    names = {info.class_id: info.name for info in work.classes}
    merged = {item.class_id: item.into for item in work.merged}
    for number, slot in enumerate(label_map.slots):
        if slot.class_id is None or slot.class_id in names:
            continue
        now = merged.get(slot.class_id, slot.class_id)
        if now in names:
            label_map = _merge(label_map, number, now, names[now], labels)
        elif slot.name not in labels:
            label_map = label_map.give_up(number)
        elif now not in work.retired:
            label_map = label_map.put(number, slot.name, None)
    return label_map


def _merge(label_map: LabelMap, slot: int, class_id: str, class_name: str, labels: Collection[str]) -> LabelMap:
    """Link a slot to what its class is now; an owner with clips under both names keeps two labels."""
    name, holder = label_map.names[slot], label_map.slot_of_class(class_id)
    if holder is None:
        keeps_name = name in labels or class_name in label_map.names
        return label_map.put(slot, name if keeps_name else class_name, class_id)
    if name not in labels:
        return label_map.give_up(slot)
    if label_map.names[holder] not in labels:
        return label_map.give_up(holder).link(slot, class_id)
    return label_map


def follow_names(label_map: LabelMap, names: Mapping[str, str], labels: Collection[str]) -> LabelMap:
    """Give the fleet's classes the names that they have by now, ``names`` by class; ``labels`` are the owner's words.

    A name that is already one of the owner's, and no class yet, is that class: both speak of the same thing. One that
    another class has gets the class in brackets.
    """
    following = {
        number: (slot.class_id, names[slot.class_id])
        for number, slot in enumerate(label_map.slots)
        if slot.class_id is not None and slot.class_id in names and slot.name not in labels
    }
    for number in following:  # two classes may have each other's former name
        label_map = label_map.give_up(number)
    for number, (class_id, name) in following.items():
        if name in label_map.labels and label_map.slots[label_map.slot_of(name)].class_id is None:
            label_map = label_map.link(label_map.slot_of(name), class_id)
            continue
        while name in label_map.names:
            name = f"{name} ({class_id})"
        label_map = label_map.put(number, name, class_id)
    return label_map


def unlinked(label_map: LabelMap) -> list[int]:
    """Return the slots of labels that are no class of the fleet yet."""
    given_up = label_map.given_up
    return [slot for slot, class_id in enumerate(label_map.class_ids) if class_id is None and slot not in given_up]


def to_report(label_map: LabelMap, with_clips: Collection[int]) -> list[int]:
    """Return the slots of new sounds that an upload reports, of those that there are clips of: as many as it may."""
    return [slot for slot in unlinked(label_map) if slot in with_clips][:REPORTS]


@dataclass(frozen=True)
class SlotOrder:
    """Pairs of slots that mean the same, the device's and the shared model's; the fleet's ``classes`` come first."""

    own: tuple[int, ...]
    shared: tuple[int, ...]
    own_capacity: int
    shared_capacity: int
    classes: int

    @classmethod
    def of(cls, label_map: LabelMap, class_ids: Sequence[str], capacity: int, new: Sequence[int] = ()) -> SlotOrder:
        """Return the order of the fleet's classes and a device's labels, of which the round's new sounds come first.

        Raises LabelError if the shared model's head, of so many outputs, has no slot for every class and label.
        """
        linked = [slot for slot, class_id in enumerate(label_map.class_ids) if class_id in class_ids]
        retired = [slot for slot, class_id in enumerate(label_map.class_ids) if class_id and class_id not in class_ids]
        rest = [*new, *(slot for slot in unlinked(label_map) if slot not in new), *retired]
        if len(class_ids) + len(rest) > capacity:
            raise LabelError(
                f"the fleet's {len(class_ids)} classes and {len(rest)} labels of this device do not fit the shared "
                f"model's head of capacity {capacity}: publish a model that was built with a larger --capacity"
            )
        shared = [class_ids.index(str(label_map.class_ids[slot])) for slot in linked]
        shared += range(len(class_ids), len(class_ids) + len(rest))
        return cls((*linked, *rest), tuple(shared), label_map.capacity, capacity, len(class_ids))

    def to_shared(self, values: Floats) -> Floats:
        """Return float32 [rows, shared capacity] of [rows, own capacity]; slots without a pair become 0."""
        return _moved(values, self.own, self.shared, self.shared_capacity)

    def to_own(self, values: Floats) -> Floats:
        """Return float32 [rows, own capacity] of [rows, shared capacity]; slots without a pair become 0."""
        return _moved(values, self.shared, self.own, self.own_capacity)

    def slots_to_shared(self, slots: Ints) -> Ints:
        """Return the shared model's slots of the device's slots, int64 [n]."""
        place = dict(zip(self.own, self.shared, strict=True))
        return np.array([place[int(slot)] for slot in slots], np.int64)

    def mask(self) -> Floats:
        """Return float32 [shared capacity]: 1 for every class of the fleet and every label of the device."""
        mask = np.zeros(self.shared_capacity, np.float32)
        mask[: self.classes] = mask[list(self.shared)] = 1.0
        return mask


def move_head(source: Arrays, into: Arrays, head: Layer, slots: Sequence[int], places: Sequence[int]) -> Arrays:
    """Return the weights of ``source`` with a head, whose last axis counts slots, in another order.

    ``into`` has weights of the same shapes, whose head's columns stay where none is moved.
    """
    moved = {name: array for name, array in source.items() if name not in head.weights}
    for name in head.weights:
        moved[name] = into[name].copy()
        moved[name][..., list(places)] = source[name][..., list(slots)]
    return moved


def _moved(values: Floats, slots: Sequence[int], places: Sequence[int], capacity: int) -> Floats:
    moved = np.zeros((len(values), capacity), np.float32)
    moved[:, list(places)] = values[:, list(slots)]
    return moved
