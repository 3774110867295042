"""One label's word may be how another's begins: "next" and "next song". What was heard of it is held until it is clear
that no more came, so that its owner is told of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import numpy as np

from edge_client.detection.posterior_handling import ROUNDING_S
from edge_client.detection.scores import BEFORE_S
from edge_client.model.prototypes import Prototype
from fleet_protocol.numbers.arrays import Doubles, Floats

# Cosine of a word and of what the longer one's windows hold earlier, from which that is the word.
_BEGINNING = 0.7
# Seconds after the longer word's end in which it is heard.
_LATE_S = 0.3

Longer = Mapping[str, Mapping[str, float]]
"""By label, the labels whose words begin like its own, and s after its own in which such a one is heard."""


def longer_words(prototypes: Mapping[str, Prototype]) -> dict[str, dict[str, float]]:
    """Return :data:`Longer` of labels: a word is nearer to an earlier window of a longer one than to its end."""
    wholes = {label: _unit(one.rows[0].mean(axis=0)) for label, one in prototypes.items()}
    found: dict[str, dict[str, float]] = {}
    for longer, one in prototypes.items():
        if not len(one.before):
            continue
        earlier = _unit(one.before)
        for label, whole in wholes.items():
            cosines = earlier @ whole
            if label != longer and cosines.max() > max(_BEGINNING, float(wholes[longer] @ whole)):
                found.setdefault(label, {})[longer] = (int(cosines.argmax()) + 1) * BEFORE_S + _LATE_S
    return found


def _unit(rows: Floats) -> Doubles:
    exact = rows.astype(np.float64)
    return np.asarray(exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-9))


Event = TypeVar("Event")


class Held(Generic[Event]):
    """What was heard and may be the beginning of more. Times are of one stream, s."""

    def __init__(self, longer: Longer) -> None:
        """``longer`` may be exchanged at any time."""
        self.longer = longer
        self._events: list[tuple[str, float, Event]] = []  # label, until when

    def update(self, at_s: float, label: str | None, event: Event | None = None) -> list[Event]:
        """Take what is heard now, if anything, and of which label; return what is certain: the earlier ones first."""
        certain, events = [], []
        for short, until_s, held in self._events:
            if label == short or until_s <= at_s + ROUNDING_S:
                certain.append(held)
            elif label not in self.longer.get(short, ()):
                events.append((short, until_s, held))
        if label is not None and event is not None:
            if label in self.longer:
                events.append((label, at_s + max(self.longer[label].values()), event))
            else:
                certain.append(event)
        self._events = events
        return certain
