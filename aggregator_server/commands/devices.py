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
    from aggregator_server.store import Tables


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
    aside = actions.add_parser("quarantine", help="let a device's uploads no longer count, until it is released")
    aside.add_argument("--reason", required=True, help="for people")
    back = actions.add_parser("release", help="let the uploads of a device in quarantine count again")
    runs = {admit: _admit, revoke: _revoke, renew: _new_secret, aside: _quarantine, back: _release}
    for action, run in runs.items():
        action.add_argument("device", metavar="DEVICE", help="its name, or its id or the beginning of it")
        action.set_defaults(run=run)
    for action in (listing, *runs):
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


def _meant(options: argparse.Namespace) -> tuple[Tables, str]:
    """Return the tables, and the id of the device that the options name."""
    from aggregator_server.commands.naming import Named, resolve
    from aggregator_server.fleet.devices import list_devices
    from aggregator_server.store import open_tables

    tables = open_tables(options.data)
    known = (Named(info.device_id, info.name, info.revoked_at is None) for info in list_devices(tables))
    return tables, resolve(options.device, known, "device", "auricle-aggregator devices list")


def _admit(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.devices import admit

    admit(*_meant(options), time.time(), COMMAND_LINE)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.devices import revoke

    revoke(*_meant(options), time.time(), COMMAND_LINE)
    return 0


def _new_secret(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.devices import ask_for_new_secret

    ask_for_new_secret(*_meant(options), time.time(), COMMAND_LINE)
    return 0


def _quarantine(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.conduct import quarantine

    quarantine(*_meant(options), options.reason, time.time(), COMMAND_LINE)
    return 0


def _release(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.conduct import release

    release(*_meant(options), time.time(), COMMAND_LINE)
    return 0
