"""From the fleet's classes to the slots of the device's own labels, whatever the strategy."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo

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
                "clips that name: auricle-edge clips relabel --label OLD NEW", heard, holds,
            )  # fmt: skip
    return label_map


def adopt_classes(label_map: LabelMap, classes: Iterable[ClassInfo]) -> LabelMap:
    """Give every class that the map lacks a slot.

    Raises:
        LabelError: the head has no free slot.
    """
    return label_map.adopt((info.class_id, info.name) for info in classes)


def unlinked(label_map: LabelMap) -> list[int]:
    """Return the slots of labels that are no class of the fleet yet."""
    return [slot for slot, class_id in enumerate(label_map.class_ids) if class_id is None]
