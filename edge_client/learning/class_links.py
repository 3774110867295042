"""From the fleet's classes to the slots of the device's own labels, whatever the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo


def take_labels(label_map: LabelMap, labels: Sequence[str], classes: Iterable[ClassInfo]) -> LabelMap:
    """Give every label that the owner taught a slot; one that the fleet knows by that name is linked to it.

    Raises:
        LabelError: the head has no free slot.
    """
    known = {info.name: info.class_id for info in classes}
    for label in labels:
        class_id = known.get(label)
        if class_id in label_map.class_ids:
            class_id = None
        if label not in label_map.names:
            label_map = label_map.add(label, class_id)
        elif class_id is not None and label_map.slots[label_map.slot_of(label)].class_id is None:
            label_map = label_map.link(label_map.slot_of(label), class_id)
    return label_map


def link_recognised(label_map: LabelMap, assignments: Iterable[ClassAssignment]) -> LabelMap:
    """Link the slots of new sounds that the aggregator recognised."""
    for assignment in assignments:
        if label_map.slot_of_class(assignment.class_id) is None:
            label_map = label_map.link(assignment.slot, assignment.class_id)
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
