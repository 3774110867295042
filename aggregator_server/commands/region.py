"""``join`` and ``leave``: make a fleet a region of another one, or one of its own again."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import TYPE_CHECKING

from aggregator_server.commands import add_data, add_json, location_of
from aggregator_server.commands.rounds import choice
from fleet_protocol.addresses import InvitationLink
from fleet_protocol.messages import Choice

if TYPE_CHECKING:
    from aggregator_server.commands import Commands


def add(commands: Commands) -> None:
    """Add the commands."""
    join = commands.add_parser(
        "join", help="make this fleet a region of another one, by an invitation of that; the server must be stopped"
    )
    join.add_argument("link", metavar="INVITATION", help="what `invite` printed there, https://host:port/#aur_join_...")
    join.add_argument(
        "--name", default=platform.node() or "region", help="of the region, for people there (this host's)"
    )
    join.add_argument(
        "--aggregation",
        type=choice,
        metavar="NAME[:SETTING=VALUE,...]",
        help="the region's own rule that combines its devices' uploads (that of each round's strategy)",
    )
    join.add_argument(
        "--insecure-http", action="store_true", help="speak plain HTTP although others can read the network"
    )
    join.set_defaults(run=_join)
    leave = commands.add_parser("leave", help="take this fleet out of the one that it is a region of")
    leave.add_argument("--forget", action="store_true", help="without telling the upper aggregator, as when it is gone")
    leave.set_defaults(run=_leave)
    for command in (join, leave):
        add_data(command)
        add_json(command)


def _join(options: argparse.Namespace) -> int:
    from aggregator_server.region.joining import join  # heavy: SQLAlchemy
    from aggregator_server.store import Store

    link, place = InvitationLink.parse(options.link), location_of(options)
    rule = None if options.aggregation is None else Choice(**options.aggregation)
    store = Store(place)
    try:
        enrolled = join(store, link, name=options.name, rule=rule, insecure_http=options.insecure_http)
    finally:
        store.close()
    if options.json:
        print(json.dumps({"upper": link.url, "device_id": enrolled.device_id, "waiting": enrolled.waiting}))
        return 0
    waits = "; an operator there has to admit it first" if enrolled.waiting else ""
    print(f"a region of the fleet at {link.url}, which knows {len(enrolled.classes)} classes{waits}")
    print(f"run it, and invite its devices: auricle-aggregator run{place.options}", file=sys.stderr)
    return 0


def _leave(options: argparse.Namespace) -> int:
    from aggregator_server.region.joining import leave
    from aggregator_server.store import Store

    store = Store(location_of(options))
    try:
        upper = leave(store, notify=not options.forget)
    finally:
        store.close()
    if options.json:
        print(json.dumps({"upper": upper}))
    else:
        print(f"left the fleet at {upper}; its model, classes and rounds stay here")
    return 0
