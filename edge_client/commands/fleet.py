"""``join`` and ``leave``: take part in a fleet, or no longer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from edge_client.commands import add_config, add_json
from fleet_protocol.command_line import print_json

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the commands."""
    join = commands.add_parser("join", help="join a fleet by an invitation (`auricle-aggregator invite` prints one)")
    add_config(join)
    join.add_argument("link", help="the invitation, https://host:port/#aur_join_...")
    join.add_argument(
        "--insecure-http", action="store_true", help="send the device's secret even where others can read it"
    )
    add_json(join)
    join.set_defaults(command=_join)
    leave = commands.add_parser("leave", help="leave the fleet; what the device learned stays")
    add_config(leave)
    leave.add_argument("--forget", action="store_true", help="without telling the aggregator, as when it is gone")
    add_json(leave)
    leave.set_defaults(command=_leave)


def _join(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.daemon.joining import join
    from edge_client.storage.device_state import DeviceState
    from fleet_protocol.addresses import InvitationLink

    link = InvitationLink.parse(options.link)
    enrolled = join(options.config, link, insecure_http=options.insecure_http)
    device = load_config(options.config).device
    if options.json:
        shared = device.share_names
        classes = [info.name for info in enrolled.classes]
        print_json({"url": link.url, "classes": classes, "waiting": enrolled.waiting, "share_names": shared})
        return 0
    print(f"joined the fleet of {link.url}, which knows {len(enrolled.classes)} classes")
    if enrolled.waiting:
        print("an operator has yet to admit this device; `auricle-edge status` tells when it is so")
    if device.share_names:
        print("it reads your words for sounds; with share_names = false in [device] they stay on this device")
    else:
        print("your words for sounds stay on this device; with share_names = true in [device] the fleet may read them")
    running = DeviceState(device.state).locked("daemon")
    print("restart the daemon: sudo systemctl restart auricle-edge" if running else "start it: auricle-edge run")
    return 0


def _leave(options: argparse.Namespace) -> int:
    from edge_client.daemon.joining import leave

    leave(options.config, tell=not options.forget)
    if options.json:
        print_json({"left": True})
        return 0
    print("left the fleet; what this device learned stays, and it goes on listening by itself")
    return 0
