"""``devices``, ``invite``, ``invitations``: let devices in, list, admit, revoke them, put them into quarantine."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aggregator_server.commands import Commands, add_data, add_json, duration, show, tables_of
from aggregator_server.commands.targets import Named, resolve
from aggregator_server.errors import AggregatorError
from aggregator_server.schemas import DeviceInfo, InvitationRequest
from aggregator_server.server_address import make_link
from fleet_protocol.ground.command_line import confirm

if TYPE_CHECKING:
    from aggregator_server.store.store import Tables


def add(commands: Commands) -> None:
    """Add the commands."""
    _add_invitations(commands)
    devices = commands.add_parser("devices", help="list, admit and revoke devices")
    actions = devices.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the devices, revoked ones too, oldest first")
    add_json(listing)
    add_data(listing)
    listing.set_defaults(run=_list)
    for name, (text, _) in _CHANGES.items():
        action = actions.add_parser(name, help=text)
        if name == "quarantine":
            action.add_argument("--reason", required=True, help="for people")
        said = "its name, or its id or the beginning of it; several may be given"
        action.add_argument("devices", nargs="*" if name == "admit" else "+", metavar="DEVICE", help=said)
        if name == "admit":
            action.add_argument("--all", action="store_true", help="every device that waits")
        if name == "revoke":
            action.add_argument("--yes", action="store_true", help="do not ask")
        action.set_defaults(run=_change, action=name, reason="", all=False, yes=name != "revoke")
        add_data(action)


# Of each action: what it is for, and what is said once it is done.
_CHANGES = {
    "admit": ("let a waiting device take part (`run --approve`)", "may take part from the next round on"),
    "revoke": ("shut a device out for good", "is shut out for good"),
    "quarantine": (
        "do not count a device's uploads until it is released",
        "is in quarantine: its uploads no longer count",
    ),
    "release": ("count the uploads of a device in quarantine again", "is not in quarantine: its uploads count"),
}
_COLUMNS = (
    *("device_id", "name", "group", "architecture", "version", "clips", "labels", "seen_at", "waiting", "revoked_at"),
    "trouble",
)


def _list(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.devices import LISTED, list_devices

    tables = tables_of(options)
    devices: list[DeviceInfo] = []
    while part := list_devices(tables, devices[-1].device_id if devices else None, LISTED):
        devices += part
    show(tuple(devices) if options.json else [_row(device) for device in devices], _COLUMNS, as_json=options.json)
    return 0


def _row(device: DeviceInfo) -> dict[str, Any]:
    version = device.versions.program or "not said"
    return asdict(device) | {"version": f"{version} (outdated)" if device.outdated else version}


def _change(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.device_changes import change_devices

    tables = tables_of(options)
    meant = _meant(tables, options)
    names = ", ".join(meant.values())
    confirm(f"shut {names} out for good; a new invitation, and a new identity, would bring them back", yes=options.yes)
    change_devices(tables, tuple(meant), options.action, time.time(), COMMAND_LINE, options.reason)
    for device_id, name in meant.items():
        print(f"{name} ({device_id}) {_CHANGES[options.action][1]}")
    return 0


def _meant(tables: Tables, options: argparse.Namespace) -> dict[str, str]:
    """Return the names of the devices that the options name, by identifier. Raises AggregatorError: there are none."""
    from aggregator_server.fleet.devices import devices_called, waiting_devices

    if options.all == bool(options.devices):
        raise AggregatorError("name devices, or say --all for every one that waits")
    if options.all:
        found = waiting_devices(tables)
        if not found:
            raise AggregatorError("no device waits to be admitted")
        return found
    meant = {}
    for given in options.devices:
        known = [Named(*found) for found in devices_called(tables, given)]
        device_id = resolve(given, known, "device", "auricle-aggregator devices list")
        meant[device_id] = str(next(device.name for device in known if device.id == device_id))
    return meant


def _add_invitations(commands: Commands) -> None:
    invite = commands.add_parser("invite", help="invite a device: print a link, a command and a QR code, this once")
    add_data(invite)
    invite.add_argument("--devices", type=int, default=1, metavar="N", help="how many devices may come by it (1)")
    invite.add_argument("--expires", type=duration, default="1d", metavar="TIME", help="like 12h, 30d, never (1d)")
    invite.add_argument("--group", help="a word for people about these devices, like kitchen")
    invite.add_argument("--url", help="the server as devices reach it (default: as it was started last)")
    add_json(invite)
    invite.set_defaults(run=_invite)
    invitations = commands.add_parser("invitations", help="list the invitations, or revoke one")
    add_data(invitations)
    invitations.add_argument("--revoke", metavar="NUMBER|GROUP", help="let nobody in by this one from now on")
    add_json(invitations)
    invitations.set_defaults(run=_invitations)


def _invite(options: argparse.Namespace) -> int:
    import segno

    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.tokens import invite

    tables = tables_of(options)
    link_of = make_link(options.data, options.url)
    wanted = InvitationRequest(devices=options.devices, expires_s=options.expires, group=options.group)
    made = invite(tables, wanted, COMMAND_LINE, time.time())
    link = link_of(made.token)
    command = f"auricle-edge join {link}"
    if options.json:
        print(json.dumps({"invitation_id": made.info.invitation_id, "link": link, "command": command}))
        return 0
    print(f"{link}\n\nOn the device:\n\n  {command}\n")
    segno.make(link, error="l").terminal(sys.stdout, compact=True)
    count = "one device" if made.info.devices == 1 else f"{made.info.devices} devices"
    until = "" if made.info.expires_at is None else f" until {made.info.expires_at:%Y-%m-%d %H:%M} UTC"
    print(f"(invitation {made.info.invitation_id}, for {count}{until})", file=sys.stderr)
    return 0


def _invitations(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.tokens import list_invitations, revoke_invitation

    tables = tables_of(options)
    listed = list_invitations(tables)
    if options.revoke is not None:
        known = (Named(str(info.invitation_id), info.group, info.revoked_at is None) for info in listed)
        meant = resolve(options.revoke, known, "invitation", "auricle-aggregator invitations", prefixes=False)
        revoke_invitation(tables, int(meant), COMMAND_LINE, time.time())
        return 0
    columns = ("invitation_id", "devices", "used", "group", "made_at", "expires_at", "revoked_at")
    show(listed, columns, as_json=options.json)
    return 0
