"""``audit``: what happened, newest first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from aggregator_server.commands import add_data, add_json, show

if TYPE_CHECKING:
    from aggregator_server.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    audit = commands.add_parser("audit", help="what happened to the fleet, newest first")
    add_data(audit)
    audit.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many entries (100)")
    audit.add_argument("--before", type=int, metavar="NUMBER", help="only entries with a smaller number")
    audit.add_argument("--what", metavar="KIND", help="only entries of this kind, like device_enrolled")
    add_json(audit)
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import list_entries
    from aggregator_server.store import open_tables

    found = list_entries(open_tables(options.data), options.before, options.limit, options.what)
    show(found, ("audit_id", "at", "who", "address", "what", "details"), as_json=options.json)
    return 0
