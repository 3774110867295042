"""``join`` and ``leave``: take part in a fleet, or no longer; ``offers``: sounds that its other devices were taught."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edge_client.commands import Commands, open_teaching, report, set_command

if TYPE_CHECKING:
    from fleet_protocol.messages.invitation_link import InvitationLink
    from fleet_protocol.messages.rest import Enrolled


def add(commands: Commands) -> None:
    """Add the commands."""
    join = commands.add_parser("join", help="join a fleet by an invitation (`auricle-aggregator invite` prints one)")
    said = "the invitation, https://host:port/#aur_join_...; -: read from standard input, where no other user sees it"
    join.add_argument("link", help=said)
    clear = "send the device's secret even where others can read it"
    join.add_argument("--insecure-http", action="store_true", help=clear)
    new = "a new device that learns from these clips, LABEL/*.wav: write its configuration, with the fleet's bundle"
    join.add_argument("--recordings", type=Path, metavar="FOLDER", help=f"{new} (FOLDER.device/edge.toml)")
    join.add_argument("--play", type=Path, metavar="PATH", help="of the new device: recordings that it listens to")
    join.add_argument("--name", help="of the new device, for people (the folder's)")
    join.add_argument("--run", action="store_true", help="then run the device")
    set_command(join, _join, search=False)
    leave = commands.add_parser("leave", help="leave the fleet; what the device learned stays")
    leave.add_argument("--forget", action="store_true", help="without telling the aggregator, as when it is gone")
    set_command(leave, _leave)
    offers = commands.add_parser("offers", help="sounds that others of the fleet teach: listen for them, or not")
    offers.set_defaults(says=None)
    set_command(offers, _offers)
    actions = offers.add_subparsers(metavar="ACTION")
    for name, about in (
        ("yes", "listen for it"),
        ("no", "do not listen for it"),
        ("undo", "take that back: let the fleet decide"),
    ):
        action = actions.add_parser(name, help=about)
        action.add_argument("sound", metavar="SOUND", help="its name or identifier, as `offers` shows it")
        set_command(action, _answer, below=True)
        action.set_defaults(says=name)


def _join(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.config.location import config_option, find_config
    from edge_client.fleet.joining import join
    from edge_client.storage.device_state import DeviceState
    from fleet_protocol.messages.invitation_link import InvitationLink

    link = InvitationLink.parse(sys.stdin.readline() if options.link == "-" else options.link)
    if options.recordings is not None:
        _set_up(options, link)
    options.config = find_config(options.config)
    enrolled = join(options.config, link, insecure_http=options.insecure_http)
    _print_joined(options, link, enrolled)
    if options.run:
        from edge_client.daemon.daemon import run

        sys.stdout.flush()
        return run(options.config)
    if not options.json:
        running = DeviceState(load_config(options.config).device.state).locked("daemon")
        start = f"start it: auricle-edge run{config_option(options.config)}"
        print("restart the daemon: sudo systemctl restart auricle-edge" if running else start)
    return 0


def _print_joined(options: argparse.Namespace, link: InvitationLink, enrolled: Enrolled) -> None:
    """Say what the device joined, and what becomes of its owner's words."""
    from edge_client.config import load_config

    shared = load_config(options.config).device.share_names
    lines = [f"joined the fleet of {link.url}, which knows {len(enrolled.classes)} classes"]
    if enrolled.waiting:
        lines.append("an operator has yet to admit this device; `auricle-edge status` says when it is so")
    if shared:
        lines.append("it reads your words for sounds; with share_names = false in [device] they stay on this device")
    else:
        stay = "your words for sounds stay on this device; with share_names = true in [device] the fleet may read them"
        lines.append(stay)
    classes = [info.name for info in enrolled.classes]
    document = {"url": link.url, "classes": classes, "waiting": enrolled.waiting, "share_names": shared}
    report(document, lines, json=options.json)


def _set_up(options: argparse.Namespace, link: InvitationLink) -> None:
    """Write the configuration of a new device, beside its recordings where no place was named."""
    from edge_client.fleet.joining import set_up

    folder = options.recordings.resolve()
    if options.config is None:
        options.config = folder.with_name(f"{folder.name}.device") / "edge.toml"
    name = options.name or folder.name
    played = None if options.play is None else options.play.resolve()
    set_up(options.config, link, folder, name=name, insecure_http=options.insecure_http, played=played)
    if not options.json:
        print(f"{options.config} is the configuration of the device {name!r}, which learns from {folder}")


def _leave(options: argparse.Namespace) -> int:
    from edge_client.fleet.joining import leave

    leave(options.config, notify=not options.forget)
    line = "left the fleet; what this device learned stays, and it goes on listening by itself"
    return report({"left": True}, [line], json=options.json)


def _offers(options: argparse.Namespace) -> int:
    offers = open_teaching(options).offers()
    document = [dataclasses.asdict(one) | {"listens": one.is_heard, "why_silent": one.why_silent} for one in offers]
    lines = [
        f"{one.name!r} ({one.class_id}): {'listens' if one.is_heard else f'not listened for: {one.why_silent}'}"
        + (f"; auricle-edge offers yes {one.class_id}" if one.is_asked else "")
        for one in offers
    ]
    return report(document, lines or ["no other device of the fleet teaches a sound"], json=options.json)


def _answer(options: argparse.Namespace) -> int:
    from edge_client.questions.answers import answer_offer

    told = answer_offer(open_teaching(options), options.sound, options.says)
    return report({"sound": options.sound, "says": options.says, "told": told}, [told], json=options.json)
