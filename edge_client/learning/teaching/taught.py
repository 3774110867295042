"""What teaching on any bundle has in common: the labels that it gives a slot, those it keeps, and its result."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from edge_client.errors import ModelError
from edge_client.learning.teaching.expectation import Expectation
from fleet_protocol.arrays import Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.tensors import Arrays


@dataclass(frozen=True)
class Taught:
    """The result of a teaching.

    Attributes:
        trained: Weights with which the next round goes on.
        slots: Slots of the labels that were learned, where not all were.
    """

    trained: Arrays
    listening: Arrays
    label_map: LabelMap
    clips: int
    background_trained: bool = False
    slots: frozenset[int] = frozenset()
    expected: tuple[Expectation, ...] = ()
    tails: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    prototypes: Mapping[str, Floats] = field(default_factory=dict)


def with_labels(label_map: LabelMap, labels: Iterable[str]) -> LabelMap:
    """Give every label that the map lacks the next free slot. Raises LabelError if the head has no free slot."""
    for label in labels:
        if label not in label_map.names:
            label_map = label_map.add(label)
    return label_map


def known_slots(former: LabelMap, with_clips: Collection[str], *, keep_all: bool) -> tuple[int, ...]:
    """Return the slots that must not be forgotten.

    A label of which the owner deleted every clip, and which the fleet does not know either, is meant to be forgotten;
    where clips expire by themselves nobody can tell, and it is kept.
    """
    given_up = former.given_up
    return tuple(
        number
        for number, slot in enumerate(former.slots)
        if (keep_all or slot.class_id is not None or slot.name in with_clips) and number not in given_up
    )


def require_learned(loss: float, rate: float) -> None:
    """Check that a training did not diverge. Raises ModelError if its loss is infinite or no number."""
    if not math.isfinite(loss):
        raise ModelError(
            f"learning what was taught diverged (loss {loss}); nothing was changed. Lower [training] "
            f"teach_learning_rate, now {rate:g}"
        )
