"""When a rule applies: to what, when, how often, and while what else is heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from edge_client.config.hours import Hours
from edge_client.config.rules import RuleConfig
from edge_client.events import Event, iso
from edge_client.home.arbitration import HomeEvent

# A word has no length: for so long after it, s, it counts as going on.
_WORD_S = 10.0
LOUD = "loud"
"""What the label of a level alone is."""


@dataclass(frozen=True)
class Occurrence:
    """What a rule looks at: a sound, or a level that was kept for a time.

    ``time``: s since 1970; ``score``: 0..1; ``level_db``: dB full scale; ``document``: the same, JSON-ready; ``home``:
    whether it is the home's, of one or more ears, the best of which is the input; ``rule``: that which names the level.
    """

    time: float
    label: str
    input: str
    score: float
    level_db: float
    document: Mapping[str, object]
    home: bool = False
    rule: str = ""

    @classmethod
    def of_event(cls, event: Event) -> Occurrence:
        """Return what was heard."""
        return cls(event.time, event.label, event.input, event.score, event.level_db, event.to_json())

    @classmethod
    def of_home(cls, moment: float, event: HomeEvent) -> Occurrence:
        """Return what the home heard."""
        best = event.best
        document = {"time": iso(moment), "kind": "detected", **event.to_json()}
        return cls(moment, best.label, best.name, best.score, best.level_db, document, home=True)

    @classmethod
    def of_level(cls, moment: float, heard_by: str, level_db: float, rule: str) -> Occurrence:
        """Return that it was loud for the time that a rule names."""
        document = {"time": iso(moment), "kind": LOUD, "label": LOUD, "level_db": round(level_db, 1)}
        document |= {"input": heard_by} if heard_by else {}
        return cls(moment, LOUD, heard_by, 1.0, level_db, document, rule=rule)


def told(rule: RuleConfig, found: Occurrence, device: str, **more: object) -> dict[str, Any]:
    """Return the document that a rule's actions get."""
    names = {"label": found.label, "input": found.input, "device": device, "rule": rule.name}
    names["guess"] = str(found.document.get("guess", ""))
    then = datetime.fromtimestamp(found.time)
    figures = {"time": f"{then:%H:%M:%S}", "score": f"{100 * found.score:.0f} %"}
    figures |= {"level_db": f"{found.level_db:.0f} dB"}
    message = rule.message.format_map(names | figures)
    return {**found.document, "rule": rule.name, "device": device, "message": message, **more}


class GoingOn:
    """Which labels go on now: sounds until they are over, words for some seconds."""

    def __init__(self) -> None:
        self._inputs: dict[str, set[str]] = {}
        self._until: dict[str, float] = {}

    def take(self, event: Event, *, follows: bool) -> None:
        """Take an event, or that it goes on or is over (``follows``)."""
        if not follows:
            self._until[event.label] = event.time + _WORD_S
            return
        inputs = self._inputs.setdefault(event.label, set())
        (inputs.add if event.ended is None else inputs.discard)(event.input)
        if not inputs:
            self._until.pop(event.label, None)

    def includes(self, label: str, moment: float) -> bool:
        """Return whether a label goes on at a time, s since 1970."""
        return bool(self._inputs.get(label)) or moment < self._until.get(label, 0.0)


class Condition:
    """One rule's; ``last``: when it applied last, s since 1970, 0 where it never did."""

    def __init__(self, rule: RuleConfig, last: float = 0.0) -> None:
        self.rule, self.last = rule, last
        self._hours = Hours.read(rule.hours)
        self._heard: deque[float] = deque(maxlen=rule.times)
        self._loud_s: dict[str, float] = {}

    def loud(self, heard_by: str, level_db: float, seconds: float) -> bool:
        """Take a level that an input had for some seconds; return whether it was loud long enough just now."""
        rule = self.rule
        if rule.louder_than_db is None:
            return False
        before = self._loud_s.get(heard_by, 0.0)
        now = self._loud_s[heard_by] = before + seconds if level_db >= rule.louder_than_db else 0.0
        return before < max(rule.louder_for_s, 1e-9) <= now

    def applies(self, found: Occurrence, going_on: GoingOn) -> bool:
        """Return whether the rule applies to what was heard, and note that it did."""
        rule = self.rule
        if found.home != rule.home:
            return False
        if found.document["kind"] == LOUD:
            asked = rule.louder_than_db is not None and rule.name == found.rule
        else:
            fits = not rule.labels or found.label in rule.labels
            asked = rule.louder_than_db is None and fits and found.score >= rule.least_score
        asked = asked and found.level_db >= rule.least_level_db and (not rule.inputs or found.input in rule.inputs)
        if not asked or not self._hours.include(found.time):
            return False
        others = [label for label in rule.unless if going_on.includes(label, found.time)]
        if others or (rule.only_while and not any(going_on.includes(one, found.time) for one in rule.only_while)):
            return False
        self._heard.append(found.time)
        often = len(self._heard) == rule.times and found.time - self._heard[0] <= 60 * rule.within_min
        # A clock that was put back must not silence a rule for ever.
        since = abs(found.time - self.last)
        if not often or (self.last and since < 60 * rule.pause_min):
            return False
        if rule.first_of_day and self.last and _day(self.last) == _day(found.time):
            return False
        self._heard.clear()
        self.last = found.time
        return True


def _day(moment: float) -> object:
    return datetime.fromtimestamp(moment).date()
