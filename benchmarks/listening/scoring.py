"""What was heard beside what was said: false rejects by label, false accepts by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.listening.streams import Word

# An event belongs to the word that began up to so many seconds before.
_WITHIN_S = 2.25


@dataclass(frozen=True)
class Heard:
    """One event: when, in seconds of the stream, and which label."""

    at_s: float
    label: str


@dataclass(frozen=True)
class Score:
    """Counts over one stream or several.

    Attributes:
        hours: of sound.
        said: known words by label.
        rejected: those of them that were not heard.
        others: words that the device does not know.
        accepts: false accepts by kind: ``confusion`` (a known word heard as another), ``other word``, ``repeat`` (heard
            twice), ``background`` (nothing was said).
    """

    hours: float
    said: Counter[str]
    rejected: Counter[str]
    others: int
    accepts: Counter[str]

    @property
    def false_rejects(self) -> float:
        """Share of the known words that were not heard, 0..1."""
        return sum(self.rejected.values()) / max(1, sum(self.said.values()))

    @property
    def false_accepts_per_hour(self) -> float:
        """All kinds together."""
        return sum(self.accepts.values()) / self.hours

    def per_hour(self, kind: str) -> float:
        """One kind."""
        return self.accepts[kind] / self.hours

    def __add__(self, other: Score) -> Score:
        return Score(
            self.hours + other.hours,
            self.said + other.said,
            self.rejected + other.rejected,
            self.others + other.others,
            self.accepts + other.accepts,
        )


def score(words: Sequence[Word], heard: Sequence[Heard], seconds: float) -> Score:
    """Compare; words and events are in order of time."""
    accepts: Counter[str] = Counter()
    hits: set[int] = set()
    current = -1
    for event in heard:
        while current + 1 < len(words) and words[current + 1].begin_s <= event.at_s:
            current += 1
        word = words[current] if current >= 0 and event.at_s - words[current].begin_s <= _WITHIN_S else None
        if word is not None and word.label == event.label and current not in hits:
            hits.add(current)
        else:
            accepts[_kind(word, event)] += 1
    known = [(number, word.label) for number, word in enumerate(words) if word.label is not None]
    return Score(
        seconds / 3600,
        Counter(label for _, label in known),
        Counter(label for number, label in known if number not in hits),
        len(words) - len(known),
        accepts,
    )


def _kind(word: Word | None, event: Heard) -> str:
    if word is None:
        return "background"
    if word.label is None:
        return "other word"
    return "repeat" if word.label == event.label else "confusion"
