"""``devices``: list, admit and revoke devices, and ask one for a new secret."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from aggregator_server.commands import add_data, add_json, show

if TYPE_CHECKING:
    from aggregator_server.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    devices = commands.add_parser("devices", help="list, admit and revoke devices")
    actions = devices.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list every device, revoked ones too")
    add_json(listing)
    listing.set_defaults(run=_list)
    admit = actions.add_parser("admit", help="let a device take part that waits for it (`run --approve`)")
    revoke = actions.add_parser("revoke", help="shut a device out for good")
    renew = actions.add_parser("new-secret", help="ask a device to change its secret")
    for action, run in ((admit, _admit), (revoke, _revoke), (renew, _new_secret)):
        action.add_argument("device", metavar="ID", help="as `devices list` shows it")
        action.set_defaults(run=run)
    for action in (listing, admit, revoke, renew):
        add_data(action)


def _list(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.devices import list_devices
    from aggregator_server.store import open_tables

    columns = (
        "device_id", "name", "group", "architecture", "clips", "labels", "seen_at", "waiting", "revoked_at", "trouble",
    )  # fmt: skip
    show(list_devices(open_tables(options.data)), columns, as_json=options.json)
    return 0


def _admit(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.devices import admit
    from aggregator_server.store import open_tables

    admit(open_tables(options.data), options.device, time.time(), COMMAND_LINE)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.devices import revoke
    from aggregator_server.store import open_tables

    revoke(open_tables(options.data), options.device, time.time(), COMMAND_LINE)
    return 0


def _new_secret(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.devices import ask_for_new_secret
    from aggregator_server.store import open_tables

    ask_for_new_secret(open_tables(options.data), options.device, time.time(), COMMAND_LINE)
    return 0
