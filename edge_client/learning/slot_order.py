"""From the device's slots to those of the shared model and back.

In the shared model slot k is the k-th class of the fleet, on every device; labels that are no class yet come after
these, new sounds of the round first. A device's own label map has the order in which its owner taught it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_client.learning.class_links import unlinked
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.bundle import Layer
from fleet_protocol.errors import LabelError
from fleet_protocol.labels import LabelMap
from fleet_protocol.tensors import Arrays


@dataclass(frozen=True)
class SlotOrder:
    """Pairs of slots that mean the same.

    Attributes:
        own: Slots of the device's label map.
        shared: The same classes' slots in the shared model.
        own_capacity: Outputs of the device's head.
        shared_capacity: Outputs of the shared model's head.
        classes: Number of the fleet's classes: slots 0..classes-1 of the shared model.
    """

    own: tuple[int, ...]
    shared: tuple[int, ...]
    own_capacity: int
    shared_capacity: int
    classes: int

    @classmethod
    def of(cls, label_map: LabelMap, class_ids: Sequence[str], capacity: int, new: Sequence[int] = ()) -> SlotOrder:
        """Return the order for a label map.

        Args:
            label_map: the device's.
            class_ids: the fleet's classes in their order.
            capacity: outputs of the shared model's head.
            new: slots of the round's new sounds, in the order in which they are reported.

        Raises:
            LabelError: the shared model's head has no slot for every class and label.
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
    """Return the weights of ``source`` with a head in another order.

    Args:
        source: weights by name.
        into: weights of the same shapes, whose head's columns stay where none is moved.
        head: which of the weights are the head: their last axis counts slots.
        slots: columns of ``source``.
        places: where they go.
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
