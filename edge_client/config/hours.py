"""Parts of the day by the local clock, as `07:00-23:00`; over midnight too, and on days that are longer or shorter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)", re.ASCII)
_DAY, _QUARTER, _MINUTE_S = 1440, 15, 60.0
_MOST = 20
# Two days: one day may lack the minute at which something changes.
_MOST_STEPS = 2 * (_DAY // _QUARTER + 2 * _MOST)


@dataclass(frozen=True)
class Hours:
    """Spans of a day, from a minute to another, minutes since midnight; none: all day."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, texts: Sequence[str]) -> Hours:
        """Read spans. :func:`hours_problem` says first whether that is possible."""
        return cls(tuple(span for text in texts if (span := _span(text)) is not None))

    def include(self, moment: float) -> bool:
        """Return whether a time, s since 1970, is in one of them."""
        then = datetime.fromtimestamp(moment)
        minute = 60 * then.hour + then.minute
        return not self.spans or any(_holds(span, minute) for span in self.spans)

    def next_change(self, moment: float) -> float | None:
        """Return when that changes next, s since 1970, after a time; None: it does not."""
        now, at = self.include(moment), moment - moment % _MINUTE_S
        for _ in range(_MOST_STEPS if self.spans else 0):
            at += _MINUTE_S * self._step(at)
            if self.include(at) != now:
                return at
        return None

    def _step(self, moment: float) -> int:
        """Return minutes to the next bound, or to the next quarter of an hour, at which local clocks are changed."""
        then = datetime.fromtimestamp(moment)
        minute = 60 * then.hour + then.minute
        waits = ((bound - minute) % _DAY or _DAY for span in self.spans for bound in span)
        return min(_QUARTER - minute % _QUARTER, *waits)


def hours_problem(texts: Sequence[str]) -> str:
    """Return why these cannot be hours, "" where they can."""
    if len(texts) > _MOST:
        return f"are {len(texts)} spans; at most {_MOST} are possible"
    for text in texts:
        span = _span(text)
        if span is None:
            return f'must be like ["07:00-23:00"] or ["22:00-06:30"], from 00:00 to 24:00; {text[:40]!r} is not'
        if span[0] == span[1]:
            return f'must not begin and end at once, as {text!r} does; all day is ["00:00-24:00"]'
    return ""


def _span(text: str) -> tuple[int, int] | None:
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    begin = 60 * int(found[1]) + int(found[2])
    return begin, _DAY if found[3] is None else 60 * int(found[3]) + int(found[4])


def _holds(span: tuple[int, int], minute: int) -> bool:
    begin, end = span
    return begin <= minute < end if begin < end else minute >= begin or minute < end
