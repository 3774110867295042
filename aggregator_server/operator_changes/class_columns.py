"""What a change of the fleet's classes does to arrays: columns and rows of classes move, merge and go.

All functions are pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.arrays import Array, Floats, Ints
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays


@dataclass(frozen=True)
class ClassChange:
    """The fleet's classes after a change, and what each of them is made of."""

    classes: tuple[ClassInfo, ...]  # classes afterwards, in column order
    sources: tuple[tuple[str, ...], ...]  # classes before that each of them is made of


def changed_public_set(public_set: PublicSet, change: ClassChange) -> tuple[PublicSet, Ints]:
    """Return the public set after a change, and the rows before that its rows are, int64 [rows kept].

    Rows of a class that became another are rows of that one; rows of a class that is gone are dropped.
    """
    place: dict[str, int] = {}
    for index, sources in enumerate(change.sources):
        for class_id in sources:
            place.setdefault(class_id, index)
    new = np.array([place.get(class_id, -1) for class_id in public_set.class_ids], np.int64)[public_set.labels]
    kept = np.flatnonzero(new >= 0)
    features, synthetic = public_set.features[kept], public_set.synthetic[kept]
    return PublicSet(public_set.settings, change.classes, features, new[kept], synthetic), kept


def changed_consensus(scores: Floats, before: Sequence[str], change: ClassChange, kept: Ints) -> Floats:
    """Return the consensus after a change, float32 [rows kept, classes]; of merged classes the larger score.

    ``scores``: before, float32 [rows, classes]. ``before``: the classes of its columns. ``kept``: the rows before that
    the rows are now, int64 [rows kept].
    """
    merged = [scores[kept][:, columns].max(axis=1) for columns in _columns(before, change)]
    changed: Floats = np.stack(merged, axis=1)
    return changed


def changed_head(
    weights: Arrays, initial: Arrays, head: Sequence[str], before: Sequence[str], change: ClassChange
) -> Arrays:
    """Return the shared model's weights after a change; the head's last axis counts the classes' slots.

    ``initial``: the bundle's own, for slots that are free afterwards. ``before``: the classes of the first slots.
    """
    changed = dict(weights)
    for name in head:
        moved = initial[name].copy()
        for slot, columns in enumerate(_columns(before, change)):
            moved[..., slot] = weights[name][..., columns].mean(axis=-1, dtype=np.float64)
        changed[name] = moved
    return changed


def changed_prototypes(prototypes: FleetPrototypes, change: ClassChange) -> FleetPrototypes:
    """Return the fleet's prototypes after a change, until a round makes them anew.

    That of merged classes is the mean of theirs by devices, and what comes before it that of the one of most devices.
    What is not a class stays where the class does: of merged ones, the one may be what the other is not.
    """
    known = prototypes.class_ids
    found: list[tuple[str, Array, int]] = []
    most: list[int] = []  # row of the class of most devices
    for info, sources in zip(change.classes, change.sources, strict=True):
        places = [known.index(class_id) for class_id in sources if class_id in known]
        if places:
            counts = prototypes.devices[places]
            mean = np.average(prototypes.means[places], axis=0, weights=counts)
            found.append((info.class_id, mean, int(counts.sum())))
            most.append(places[int(counts.argmax())])
    names = tuple(class_id for class_id, _, _ in found)
    alone, said = {sources[0] for sources in change.sources if len(sources) == 1}, prototypes.negatives
    return FleetPrototypes(
        prototypes.features,
        names,
        np.asarray([mean for _, mean, _ in found], np.float32).reshape(-1, *prototypes.means.shape[1:]),
        np.array([count for _, _, count in found], np.int64),
        tuple(class_id for class_id in prototypes.provisional if class_id in names),
        None if said is None else said.only(alone),
        None if prototypes.order is None else prototypes.order.words(np.array(most, np.intp)),
    )


def _columns(before: Sequence[str], change: ClassChange) -> list[list[int]]:
    """Return, for each class afterwards, the columns before that it is made of."""
    column = {class_id: index for index, class_id in enumerate(before)}
    return [[column[class_id] for class_id in sources if class_id in column] for sources in change.sources]
