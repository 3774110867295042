"""Rules that the owner made on the page, as private as the configuration: they hold addresses and secrets."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

import dacite

from edge_client.config.rules import RuleConfig
from edge_client.errors import ConfigError
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

_NOTE = "rules"


def read_rules(database: Database) -> list[RuleConfig]:
    """Return them in the order in which they were made. Raises StateError, OSError as :class:`Database`."""
    found = []
    for values in database.note(_NOTE) or []:
        try:
            found.append(dacite.from_dict(RuleConfig, values, dacite.Config(cast=[tuple])))
        except (ConfigError, dacite.DaciteError) as error:  # a later release wrote it
            log.warning("a rule of the page cannot be used and is left out: %s", error)
    return found


def write_rules(database: Database, rules: Sequence[RuleConfig]) -> None:
    """Keep these in place of what was there. Raises StateError, OSError as :class:`Database`."""
    database.set_note(_NOTE, [dataclasses.asdict(rule) for rule in rules] or None)
