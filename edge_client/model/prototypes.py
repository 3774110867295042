"""What a label's windows are compared with; ``learning.teaching.prototypes`` makes it, ``detection.scores`` uses it."""

from __future__ import annotations

from typing import NamedTuple

from fleet_protocol.numbers.arrays import Floats


class Prototype(NamedTuple):
    """Directions of one label in the embedding.

    Attributes:
        rows: Of the label and of a word's parts, float32 [1 + parts, takes, numbers].
        before: Of what windows held half a second earlier, a second, and so on, float32 [states, numbers]. The length
            of each is its share of the cosine, 0 to 1. A short word and a sound have none.
        rejected: Of what the owner said is not the word, in the same form; None where there is nothing.
        neutral: The cosine of a window that changes nothing, where that is less than the one of all labels.
        after: Directions of what windows may hold a quarter of a second later, float32 [ways, numbers]; None where
            nobody knows.
    """

    rows: Floats
    before: Floats
    rejected: Prototype | None = None
    neutral: float = 1.0
    after: Floats | None = None
