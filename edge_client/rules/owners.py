"""Rules that the owner makes on the page, beside those of the configuration, and how all of them are.

They are as private as the configuration: they hold addresses and secrets.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import dacite

from edge_client.config import Config
from edge_client.config.rules import MOST_RULES, RuleConfig
from edge_client.errors import ConfigError, StateError
from edge_client.events import Event
from edge_client.rules.actions import actions_of
from edge_client.rules.conditions import Occurrence, told
from edge_client.rules.outbox import Outbox
from edge_client.storage.database import Database
from edge_client.storage.device_state import DeviceState

log = logging.getLogger(__name__)

_NOTE = "rules"
_TEST_S, _LOOK_S = 60.0, 0.2


class RulesOfDevice:
    """All rules: those ``written`` in the configuration, then those of the page; both may change while it runs."""

    def __init__(self, written: Sequence[RuleConfig], database: Database) -> None:
        self.written, self._database = tuple(written), database
        self._kept: object = []
        self._rules = self.written

    def now(self) -> tuple[RuleConfig, ...]:
        """Return the rules; they are read anew only where somebody changed them. Raises as :class:`Database`."""
        kept = self._database.note(_NOTE) or []
        if kept != self._kept:
            self._kept, self._rules = kept, (*self.written, *_read(kept))
        return self._rules


def _read(kept: Sequence[dict[str, Any]]) -> list[RuleConfig]:
    found = []
    for values in kept:
        try:
            found.append(dacite.from_dict(RuleConfig, values, dacite.Config(cast=[tuple])))
        except (ConfigError, dacite.DaciteError) as error:  # a later release wrote it
            log.warning("a rule of the page cannot be used and is left out: %s", error)
    return found


def write_rules(database: Database, rules: Sequence[RuleConfig]) -> None:
    """Keep these in place of what was there. Raises StateError, OSError as :class:`Database`."""
    database.set_note(_NOTE, [dataclasses.asdict(rule) for rule in rules] or None)


class Rules:
    """All rules of a device. All raise StateError, OSError as Database."""

    def __init__(self, state: DeviceState, config: Config) -> None:
        self._state, self._config, self._rules = state, config, RulesOfDevice(config.rules, state.database)
        self._outbox = Outbox(state.database)

    def every(self) -> tuple[RuleConfig, ...]:
        """Return the rules, those of the configuration first."""
        return self._rules.now()

    def listed(self) -> list[dict[str, Any]]:
        """Return of each rule, JSON-ready, what it does, what waits, and why that failed last."""
        waiting = self._outbox.waiting()
        return [
            {
                "name": rule.name,
                "does": actions_of(rule),
                "waiting": sum(message.rule == rule.name for message in waiting),
                "error": next(
                    (message.error for message in waiting if message.rule == rule.name and message.error), ""
                ),
            }
            for rule in self.every()
        ]

    def lost(self) -> tuple[int, str]:
        """Return how many messages were lost, ever, and why the last one was, "" where it is not known."""
        return self._outbox.lost()

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a rule. Raises ConfigError: names the value that it cannot have."""
        rule, rules = RuleConfig(**values), self.every()
        self._config.require_home_of(rule)
        if any(rule.name == other.name for other in rules):
            raise ConfigError(f"there is a rule {rule.name!r} already; choose another name")
        if len(rules) >= MOST_RULES:
            raise ConfigError(f"there are {len(rules)} rules; at most {MOST_RULES} are possible")
        write_rules(self._state.database, [*rules[len(self._config.rules) :], rule])

    def remove(self, name: str) -> None:
        """Remove a rule that was added. Raises ConfigError if there is none, or it is of the configuration."""
        self._require(name)
        if any(rule.name == name for rule in self._config.rules):
            raise ConfigError(f"the rule {name!r} stands in the configuration; remove it there")
        own = self.every()[len(self._config.rules) :]
        write_rules(self._state.database, [rule for rule in own if rule.name != name])

    def test(self, name: str, label: str) -> list[str]:
        """Have the daemon do what a rule says, of a made-up sound; return what it did. It waits for that.

        The daemon's network and rights are those that count. Raises ConfigError if there is no such rule; StateError if
        the daemon does not run, or it failed: names why.
        """
        rule = self._require(name)
        if not self._state.locked("daemon"):
            raise StateError("the daemon does not run, which tells what rules say: auricle-edge run")
        event = Event(time.time(), "detected", label, None, 1.0, -20.0)
        device, actions = self._config.device.name, actions_of(rule)
        document = told(rule, Occurrence.of_event(event), device, test=True)
        numbers = self._outbox.add(rule.name, actions, document, time.time())
        give_up = time.monotonic() + _TEST_S
        while True:
            waiting = [one for one in self._outbox.waiting() if one.number in numbers]
            if all(one.error for one in waiting) or time.monotonic() > give_up:
                break
            time.sleep(_LOOK_S)
        for one in waiting:
            self._outbox.done(one)
        if waiting:
            failed = "; ".join(f"{one.action}: {one.error or f'not done within {_TEST_S:g} s'}" for one in waiting)
            raise StateError(f"rule {name!r}: {failed}")
        return actions

    def _require(self, name: str) -> RuleConfig:
        rules = {rule.name: rule for rule in self.every()}
        if name not in rules:
            raise ConfigError(f"there is no rule {name[:100]!r}; there are: {', '.join(rules) or 'none'}")
        return rules[name]


def described(rule: RuleConfig) -> str:
    """Return when a rule applies, in words without its secrets."""
    parts = [", ".join(rule.labels) if rule.labels else "any sound"]
    if rule.louder_than_db is not None:
        parts = [f"louder than {rule.louder_than_db:g} dB for {rule.louder_for_s:g} s"]
    parts += [f"heard by {', '.join(rule.inputs)}"] if rule.inputs else []
    parts += [", ".join(rule.hours)] if rule.hours else []
    parts += [f"{rule.times} times in {rule.within_min:g} minutes"] if rule.times > 1 else []
    parts += [f"not again for {rule.pause_min:g} minutes"] if rule.pause_min else []
    parts += ["once a day"] if rule.first_of_day else []
    parts += [f"only while {' or '.join(rule.only_while)}"] if rule.only_while else []
    parts += [f"not while {' or '.join(rule.unless)}"] if rule.unless else []
    parts += ["anywhere in the home"] if rule.home else []
    return "; ".join(parts)
