"""``offers``: sounds that other devices of the fleet were taught; whether this device listens for them, and why not."""

from __future__ import annotations

import argparse
import dataclasses

from edge_client.commands import Commands, open_teaching, report, set_command


def add(commands: Commands) -> None:
    """Add the command."""
    offers = commands.add_parser("offers", help="sounds that others of the fleet teach: listen for them, or not")
    offers.set_defaults(says=None)
    set_command(offers, _list)
    actions = offers.add_subparsers(metavar="ACTION")
    for name, about in (
        ("yes", "listen for it"),
        ("no", "do not listen for it"),
        ("undo", "take that back: let the fleet decide"),
    ):
        action = actions.add_parser(name, help=about)
        action.add_argument("sound", metavar="SOUND", help="its name or identifier, as `offers` shows it")
        set_command(action, _say, below=True)
        action.set_defaults(says=name)


def _list(options: argparse.Namespace) -> int:
    offers = open_teaching(options).offers()
    document = [dataclasses.asdict(one) | {"listens": one.is_heard, "why_silent": one.why_silent} for one in offers]
    lines = [
        f"{one.name!r} ({one.class_id}): {'listens' if one.is_heard else f'not listened for: {one.why_silent}'}"
        + (f"; auricle-edge offers yes {one.class_id}" if one.is_asked else "")
        for one in offers
    ]
    return report(document, lines or ["no other device of the fleet teaches a sound"], json=options.json)


def _say(options: argparse.Namespace) -> int:
    from edge_client.questions.answers import answer_offer

    told = answer_offer(open_teaching(options), options.sound, options.says)
    return report({"sound": options.sound, "says": options.says, "told": told}, [told], json=options.json)
