"""From the fleet's classes to the slots of the device's own labels, whatever the strategy."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from fleet_protocol.labels import LabelMap
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages import ClassAssignment, ClassInfo, Work

log = logging.getLogger(__name__)


def take_labels(label_map: LabelMap, labels: Sequence[str], classes: Iterable[ClassInfo]) -> LabelMap:
    """Give every label that the owner taught a slot; one that the fleet knows by that name is linked to it.

    A class that another label was linked to goes to the label of its name when the other has no clips any more: the
    owner has renamed them.

    Args:
        label_map: of the device's model.
        labels: that there are clips of.
        classes: of the fleet.

    Raises:
        LabelError: the head has no free slot.
    """
    known = {info.name: info.class_id for info in classes}
    for label in labels:
        if label not in label_map.names:
            label_map = label_map.add(label)
        slot, class_id = label_map.slot_of(label), known.get(label)
        if class_id is None or label_map.slots[slot].class_id is not None:
            continue
        holder = label_map.slot_of_class(class_id)
        if holder is None or label_map.names[holder] not in labels:
            label_map = label_map.link(slot, class_id)
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
            heard, holds = label_map.names[assignment.slot], label_map.names[holder]
            log.info(
                "the fleet takes %r for %r, which this device has a slot for; if they are the same sound, give the "
                "clips that name: auricle-edge clips relabel --label OLD NEW",
                heard,
                holds,
            )
    return label_map


def adopt_classes(label_map: LabelMap, classes: Iterable[ClassInfo]) -> LabelMap:
    """Give the classes that the map lacks a slot, in their order, as many as there is room for."""
    left_out = []
    for info in classes:
        adopted = label_map.room or _has_slot(label_map, info)
        if adopted:
            label_map = label_map.adopt([(info.class_id, info.name)])
        else:
            left_out.append(info.name)
    if left_out:
        log.warning("the model's head has no slot left for the fleet's %s", ", ".join(left_out))
    return label_map


def _has_slot(label_map: LabelMap, info: ClassInfo) -> bool:
    """Tell whether a class has a slot, or a label of its name that is no class yet."""
    return info.class_id in label_map.class_ids or any(
        slot.name == info.name and slot.class_id is None for slot in label_map.slots
    )


def follow_fleet(label_map: LabelMap, work: Work, labels: Collection[str]) -> LabelMap:
    """Follow what an operator did to classes that slots are linked to.

    - Of a merged class: its slot is linked to what the class is now. Where both had a slot, the one with clips stays.
    - Of any class that is gone: a label without clips is given up, and another sound can have its slot.
    - A label with clips stays its owner's. That of a class that was retired keeps the link, so that it is not reported
      again. That of a class which the fleet knows no more, such as one whose round was undone, is a new sound again.

    Args:
        label_map: of the device's model.
        work: with the fleet's classes, and what became of others.
        labels: that there are clips of.
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


def unlinked(label_map: LabelMap) -> list[int]:
    """Return the slots of labels that are no class of the fleet yet."""
    given_up = label_map.given_up
    return [slot for slot, class_id in enumerate(label_map.class_ids) if class_id is None and slot not in given_up]


def to_report(label_map: LabelMap, with_clips: Collection[int]) -> list[int]:
    """Return the slots of new sounds that an upload reports, of those that there are clips of: as many as it may."""
    return [slot for slot in unlinked(label_map) if slot in with_clips][:REPORTS]
