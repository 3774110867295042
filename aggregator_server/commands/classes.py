"""``classes``: list the fleet's classes at a running server, and change them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from urllib.parse import quote

from aggregator_server.client import Client
from aggregator_server.commands import add_json, show, tell
from aggregator_server.commands.targets import Named, add_server, connect, resolve

if TYPE_CHECKING:
    from aggregator_server.commands import Commands

_ACTIVE = "active"


def add(commands: Commands) -> None:
    """Add the command."""
    classes = commands.add_parser("classes", help="list the fleet's classes; rename, merge, retire one")
    classes.set_defaults(run=_list)
    _add_options(classes)
    classes.add_argument("--all", action="store_true", help="also former ones")
    actions = classes.add_subparsers(metavar="ACTION")
    rename = actions.add_parser("rename", help="give a class another name")
    merge = actions.add_parser("merge", help="join a class to another, whose name stays")
    retire = actions.add_parser("retire", help="give a class up; owners keep their clips and labels")
    for action in (rename, merge, retire):
        action.add_argument("class_id", metavar="CLASS", help="its identifier or name, as `classes` shows it")
        action.set_defaults(run=_change, name=None, into=None)
        _add_options(action, below=True)
    rename.add_argument("name", help="its new name")
    merge.add_argument("into", metavar="INTO", help="the other class")


def _add_options(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    add_server(parser, below=below)
    add_json(parser, below=below)


def _list(options: argparse.Namespace) -> int:
    found = connect(options).get("/v1/class-history")
    rows = [item for item in found if options.all or item["state"] == _ACTIVE]
    if not options.json:
        for item in rows:
            item["reported by"] = f"{len({report['device_id'] for report in item['reports']})} devices"
    show(rows, ("class_id", "name", "state", "discovered_in", "merged_into", "reported by"), as_json=options.json)
    return 0


def _change(options: argparse.Namespace) -> int:
    client = connect(options)
    address = f"/v1/classes/{quote(_identifier(client, options.class_id), safe='')}"
    if options.into is not None:
        changed = client.send("PATCH", address, {"merge_into": _identifier(client, options.into)})
    elif options.name is not None:
        changed = client.send("PATCH", address, {"name": options.name})
    else:
        changed = client.send("DELETE", address)
    tell(options, changed, f"{changed['class_id']}: {changed['name']} ({changed['state']})")
    return 0


def _identifier(client: Client, given: str) -> str:
    """Return the identifier of a class that is named by it, by its beginning, or by its name."""
    found = client.get("/v1/class-history")
    known = (Named(str(item["class_id"]), item["name"], item["state"] == _ACTIVE) for item in found)
    return resolve(given, known, "class", "auricle-aggregator classes --all")
