"""Looks at what is heard by the rules, and delivers what they say; listening never waits for either."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from edge_client.config.rules import RuleConfig
from edge_client.errors import StateError
from edge_client.events import Event, Sink
from edge_client.events.delivery import Delivery
from edge_client.home.arbitration import HomeEvent
from edge_client.logs import RateLimitedLog
from edge_client.rules.actions import ActionError, Actions, Broker, actions_of
from edge_client.rules.conditions import Condition, GoingOn, Occurrence, told
from edge_client.rules.outbox import Message, Outbox
from edge_client.rules.owners import RulesOfDevice
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

_APPLIED = "rules_applied"
_GRACE_S, _LOOK_S = 2.0, 2.0
# A clock that is set changes what is due: for no longer than this, s, nobody looks.
_LONGEST_S = 300.0
_Seen = tuple[Event, bool] | Occurrence


class RulesSink(Sink):
    """Applies rules to events. A thread looks, another one delivers."""

    def __init__(
        self, rules: Sequence[RuleConfig], device: str, database: Database, folder: Path, broker: Broker | None
    ) -> None:
        """Go on with what waits. ``folder``: of the configuration, whose ``rules`` are; the owner may make others."""
        self._rules, self._device, self._database = RulesOfDevice(rules, database), device, database
        self._outbox, self._actions = Outbox(database), Actions(folder, broker)
        self._taken_up: tuple[RuleConfig, ...] = ()
        self._conditions: dict[str, Condition] = {}
        self._by_level: list[Condition] = []
        self._take_up()
        self._going_on = GoingOn()
        self._trouble = RateLimitedLog(log)
        self._looking: Delivery[_Seen] = Delivery("the rules", self._look)
        self._stop, self._new = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="rules", daemon=True)
        self._thread.start()

    def publish(self, event: Event) -> None:
        """Look at an event."""
        self._looking.put((event, False))

    def follow(self, event: Event) -> None:
        """Note that a sound goes on, or is over."""
        self._looking.put((event, True))

    def at_home(self, event: HomeEvent) -> None:
        """Look at what the home heard."""
        self._looking.put(Occurrence.of_home(time.time(), event))

    def level(self, heard_by: str, level_db: float, seconds: float) -> None:
        """Look at the level that an input had for some seconds."""
        for one in self._by_level:  # the list is replaced, never changed
            if one.loud(heard_by, level_db, seconds):
                self._looking.put(Occurrence.of_level(time.time(), heard_by, level_db, one.rule.name))

    def close(self) -> None:
        """Look at what waits; what is not delivered stays for the next start."""
        self._looking.close(_GRACE_S)
        self._stop.set()
        self._new.set()
        self._thread.join(_GRACE_S)

    def _take_up(self) -> None:
        """Take up the rules as they are now; one that stays as it was goes on."""
        rules = self._rules.now()
        if rules is self._taken_up:
            return
        before, self._taken_up = self._conditions, rules
        applied = self._database.note(_APPLIED) or {}
        kept = {name: one for name, one in before.items() if one.rule in rules}
        self._conditions = {
            rule.name: kept.get(rule.name) or Condition(rule, float(applied.get(rule.name, 0.0))) for rule in rules
        }
        self._by_level = [one for one in self._conditions.values() if one.rule.louder_than_db is not None]

    def _look(self, seen: _Seen) -> None:
        self._take_up()
        if isinstance(seen, tuple):
            event, follows = seen
            self._going_on.take(event, follows=follows)
            if follows:
                return
            found = Occurrence.of_event(event)
        else:
            found = seen
        for condition in self._conditions.values():
            if condition.applies(found, self._going_on):
                rule = condition.rule
                self._outbox.add(rule.name, actions_of(rule), told(rule, found, self._device), found.time)
                applied = {one.rule.name: one.last for one in self._conditions.values() if one.last}
                self._database.set_note(_APPLIED, applied, durable=False)
                self._new.set()

    def _deliver(self) -> None:
        key, due = None, 0.0
        while not self._stop.is_set():
            try:
                # Another process may have added a message; one that failed becomes due.
                if (now := self._database.key()) != key or time.monotonic() >= due:
                    key = now
                    while not self._stop.is_set() and (message := self._outbox.due()) is not None:
                        self._do(message)
                    due = time.monotonic() + min(self._outbox.pause_s(), _LONGEST_S)
            except (StateError, OSError) as error:
                self._trouble.warning("rules cannot be followed now: %s", error)
            self._new.wait(_LOOK_S)
            self._new.clear()

    def _do(self, message: Message) -> None:
        rule = next((one for one in self._rules.now() if one.name == message.rule), None)
        try:
            if rule is None or message.action not in actions_of(rule):
                raise ActionError("the configuration has this no more", for_good=True)
            self._actions.do(rule, message.action, message.document)
        except ActionError as error:
            self._trouble.warning("rule %s: %s", message.rule, error)
            self._outbox.failed(message, str(error), for_good=error.for_good)
        else:
            self._outbox.done(message)
