"""Which of the sounds that a device is in doubt about are worth a question: those whose answer would teach most.

The value of an answer is how open the question is, times how often the device was wrong about such sounds, times how
new the sound is. Of a week's candidates the best are asked about, a few a day: a candidate is asked about where it
would have been among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edge_client.questions.store import DAY_S, NEVER, NO, WAS, WEEK_S, YES, Book, Candidate
from fleet_protocol.arrays import Floats
from fleet_protocol.embedding_statistics import EmbeddingStatistics

ALIKE = 0.75
"""Whitened cosine from which a sound counts as one about which the owner does not want to be asked."""


def openness(margin: float) -> float:
    """Return how open the question is, 0..1, of a margin in logits: 1 at the threshold, 0.42 two logits off it."""
    chance = 1 / (1 + math.exp(-margin))
    return 4 * chance * (1 - chance)


def error_rate(book: Book, *, detected: bool) -> float:
    """Return how often the device was wrong about detections, or about near misses, by the answers so far, 0..1.

    Half of the time before there are any (Laplace's rule of succession). In a room full of talk near misses are seldom
    the label, and their questions make room for those about detections.
    """
    answered = [one for one in book.questions if one.said in (YES, NO, WAS) and one.detected == detected]
    wrong = sum((one.said == YES) != detected for one in answered)
    return (wrong + 1) / (len(answered) + 2)


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


def is_chosen(candidate: Candidate, book: Book, per_day: int, now: float) -> bool:
    """Return whether a candidate is asked about; ``per_day``: questions of a day at most; ``now``: s since 1970."""
    asked = sum(one.is_fresh(now) for one in book.questions)
    if asked >= per_day:
        return False
    rates = {detected: error_rate(book, detected=detected) for detected in (False, True)}

    def value(one: Candidate) -> float:
        return one.worth * rates[one.detected]

    week = [one for one in book.candidates if 0 <= now - one.at < WEEK_S]
    days = max(1.0, (now - min((one.at for one in week), default=now)) / DAY_S)
    return sum(value(one) > value(candidate) for one in week) < per_day * days
