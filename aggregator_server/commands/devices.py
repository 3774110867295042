"""``devices``: list, admit and revoke devices, put them into quarantine, and ask one for a new secret."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from aggregator_server.commands import add_data, add_json, show

if TYPE_CHECKING:
    from aggregator_server.commands import Commands
    from aggregator_server.schemas import DeviceInfo


def add(commands: Commands) -> None:
    """Add the command."""
    devices = commands.add_parser("devices", help="list, admit and revoke devices")
    actions = devices.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list every device, revoked ones too")
    add_json(listing)
    add_data(listing)
    listing.set_defaults(run=_list)
    helps = {
        "admit": "let a device take part that waits for it (`run --approve`)",
        "revoke": "shut a device out for good",
        "new-secret": "ask a device to change its secret",
        "quarantine": "let a device's uploads no longer count, until it is released",
        "release": "let the uploads of a device in quarantine count again",
    }
    for name, text in helps.items():
        action = actions.add_parser(name, help=text)
        if name == "quarantine":
            action.add_argument("--reason", required=True, help="for people")
        action.add_argument("device", metavar="DEVICE", help="its name, or its id or the beginning of it")
        action.set_defaults(run=_change, action=name, reason="")
        add_data(action)


def _list(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.devices import list_devices
    from aggregator_server.store import open_tables

    columns = (
        "device_id",
        "name",
        "group",
        "architecture",
        "version",
        "clips",
        "labels",
        "seen_at",
        "waiting",
        "revoked_at",
        "trouble",
    )
    devices = list_devices(open_tables(options.data))
    rows = devices if options.json else [asdict(device) | {"version": _version(device)} for device in devices]
    show(rows, columns, as_json=options.json)
    return 0


def _version(device: DeviceInfo) -> str:
    said = device.versions.program or "not said"
    return f"{said} (outdated)" if device.outdated else said


def _change(options: argparse.Namespace) -> int:
    from aggregator_server.commands.naming import Named, resolve
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.device_changes import change_devices
    from aggregator_server.fleet.devices import list_devices
    from aggregator_server.store import open_tables

    tables = open_tables(options.data)
    known = (Named(info.device_id, info.name, info.revoked_at is None) for info in list_devices(tables))
    device_id = resolve(options.device, known, "device", "auricle-aggregator devices list")
    change_devices(tables, [device_id], options.action, time.time(), COMMAND_LINE, options.reason)
    return 0
