"""Which of the sounds that a device is in doubt about are worth a question: those whose answer would teach most.

The value of an answer is how open the question is, times how new the sound is. Of a week's candidates the best are
asked about, a few a day: a candidate is asked about where it would have been among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edge_client.questions.store import DAY_S, NEVER, WEEK_S, Book
from fleet_protocol.arrays import Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics

ALIKE = 0.75
"""Whitened cosine from which a sound counts as one about which the owner does not want to be asked."""


def openness(margin: float) -> float:
    """Return how open the question is, 0..1, of a margin in logits: 1 at the threshold, 0.42 two logits off it."""
    chance = 1 / (1 + math.exp(-margin))
    return 4 * chance * (1 - chance)


def novelty(embedding: Floats, known: Sequence[Floats], statistics: EmbeddingStatistics) -> float:
    """Return how new a sound is, 0..1: 1 - its whitened cosine to the most similar one that is known.

    Args:
        embedding: float32 [numbers].
        known: float32 [numbers] each: taught clips, and sounds that were asked about.
    """
    return 1.0 - max(0.0, nearest(embedding, known, statistics))


def nearest(embedding: Floats, known: Sequence[Floats], statistics: EmbeddingStatistics) -> float:
    """Return the highest whitened cosine of an embedding to others, -1..1; -1 where there are none."""
    if not len(known):
        return -1.0
    return float((statistics.whitened(np.stack(known)) @ statistics.whitened(embedding[None])[0]).max())


def is_unwanted(embedding: Floats, book: Book, statistics: EmbeddingStatistics) -> bool:
    """Return whether the owner said of such a sound never to ask about it."""
    never = [one.embedding for one in book.questions if one.said == NEVER]
    return nearest(embedding, never, statistics) >= ALIKE


def is_chosen(value: float, book: Book, per_day: int, now: float) -> bool:
    """Return whether a candidate of this value is asked about; ``book`` does not have it yet.

    Args:
        per_day: questions of a day at most.
        now: seconds since 1970.
    """
    asked = sum(one.is_fresh(now) for one in book.questions)
    if asked >= per_day:
        return False
    week = [(at, other) for at, other in book.values if 0 <= now - at < WEEK_S]
    days = max(1.0, (now - min((at for at, _ in week), default=now)) / DAY_S)
    return sum(other > value for _, other in week) < per_day * days
