"""Rules that the owner made on the page, as private as the configuration: they hold addresses and secrets."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import dacite

from edge_client.config.rules import RuleConfig
from edge_client.errors import ConfigError
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

_NOTE = "rules"


class RulesOfDevice:
    """All rules: those ``written`` in the configuration, then those of the page; both may change while it runs."""

    def __init__(self, written: Sequence[RuleConfig], database: Database) -> None:
        self.written, self._database = tuple(written), database
        self._key: object = None
        self._kept: object = None
        self._rules = self.written

    def now(self) -> tuple[RuleConfig, ...]:
        """Return the rules; they are read anew only where somebody changed them. Raises as :class:`Database`."""
        key = self._database.key()
        if key != self._key:
            kept = self._database.note(_NOTE) or []
            if kept != self._kept:
                self._rules = (*self.written, *_read(kept))
            self._key, self._kept = key, kept
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
