"""``classes``: list the fleet's classes at a running server, and change them."""

import argparse
from typing import Any
from urllib.parse import quote

from aggregator_server.client import Client
from aggregator_server.commands import Commands, add_json, show, tell
from aggregator_server.commands.targets import Named, add_server, connect, resolve

_ACTIVE = "active"


def add(commands: Commands) -> None:
    """Add the command."""
    classes = commands.add_parser("classes", help="list the fleet's classes; rename, approve, merge, retire one")
    classes.set_defaults(run=_list)
    _add_options(classes)
    classes.add_argument("--all", action="store_true", help="also former ones")
    actions = classes.add_subparsers(metavar="ACTION")
    rename = actions.add_parser("rename", help="give a class another name")
    approve = actions.add_parser("approve", help="let every device listen for it, however few were taught it")
    merge = actions.add_parser("merge", help="join a class to another, whose name stays")
    retire = actions.add_parser("retire", help="give a class up; owners keep their clips and labels")
    for action in (rename, approve, merge, retire):
        action.add_argument("class_id", metavar="CLASS", help="its identifier or name, as `classes` shows it")
        action.set_defaults(run=_change, name=None, into=None, approve=action is approve)
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
            item["sent by"] = f"{item['sent_by']} devices" if item["discovered_in"] else None
            item["note"] = _note(item)
    show(rows, ("class_id", "name", "state", "discovered_in", "merged_into", "sent by", "note"), as_json=options.json)
    return 0


def _note(item: dict[str, Any]) -> str | None:
    refused = sum(item["refused"].values())
    said = "approved" if item["approved"] else "QUARANTINED: look, then approve or retire it" * item["quarantined"]
    return "; ".join(filter(None, (said, f"{refused} devices refused it" * bool(refused)))) or None


def _change(options: argparse.Namespace) -> int:
    client = connect(options)
    address = f"/v1/classes/{quote(_identifier(client, options.class_id), safe='')}"
    if options.into is not None:
        changed = client.send("PATCH", address, {"merge_into": _identifier(client, options.into)})
    elif options.approve:
        changed = client.send("PATCH", address, {"approve": True})
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
