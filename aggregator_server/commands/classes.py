"""``classes``: list the fleet's classes at a running server, and change them."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from aggregator_server.client import Client, part
from aggregator_server.commands import add_json, show
from aggregator_server.commands.targets import Named, add_server, connect, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from aggregator_server.commands import Commands

    Change = Callable[[Client, argparse.Namespace], Any]

_ACTIVE = "active"


def add(commands: Commands) -> None:
    """Add the command."""
    classes = commands.add_parser("classes", help="list the fleet's classes; rename, merge, retire one")
    classes.set_defaults(run=_list)
    _add_options(classes)
    classes.add_argument("--all", action="store_true", help="also former ones")
    actions = classes.add_subparsers(metavar="ACTION")
    rename = actions.add_parser("rename", help="give a class another name")
    rename.set_defaults(run=_changing(lambda client, options: _patch(client, options, name=options.name)))
    merge = actions.add_parser("merge", help="join a class to another, whose name stays")
    merge.set_defaults(run=_changing(_merge))
    retire = actions.add_parser("retire", help="give a class up; owners keep their clips and labels")
    retire.set_defaults(run=_changing(_remove))
    for action in (rename, merge, retire):
        action.add_argument("class_id", metavar="CLASS", help="its identifier or name, as `classes` shows it")
        _add_options(action, below=True)
    rename.add_argument("name", help="its new name")
    merge.add_argument("into", metavar="INTO", help="the other class")


def _add_options(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    add_server(parser, below=below)
    add_json(parser, below=below)


def _list(options: argparse.Namespace) -> int:
    client = connect(options)
    found = client.get("/v1/class-history")
    kept = [item for item in found if options.all or item["state"] == _ACTIVE]
    rows = kept if options.json else [item | {"reported by": _reporters(item)} for item in kept]
    show(rows, ("class_id", "name", "state", "discovered_in", "merged_into", "reported by"), as_json=options.json)
    return 0


def _reporters(item: dict[str, Any]) -> str:
    return f"{len({report['device_id'] for report in item['reports']})} devices"


def _changing(change: Change) -> Callable[[argparse.Namespace], int]:
    """Return a command that makes a change of the class that the options name."""

    def run(options: argparse.Namespace) -> int:
        client = connect(options)
        options.class_id = _identifier(client, options.class_id)
        changed = change(client, options)
        if options.json:
            print(json.dumps(changed))
        else:
            print(f"{changed['class_id']}: {changed['name']} ({changed['state']})")
        return 0

    return run


def _patch(client: Client, options: argparse.Namespace, **wanted: object) -> Any:  # noqa: ANN401  (an answer)
    given = {name: value for name, value in wanted.items() if value is not None}
    return client.send("PATCH", f"/v1/classes/{part(options.class_id)}", given)


def _merge(client: Client, options: argparse.Namespace) -> Any:  # noqa: ANN401
    return _patch(client, options, merge_into=_identifier(client, options.into))


def _remove(client: Client, options: argparse.Namespace) -> Any:  # noqa: ANN401
    return client.send("DELETE", f"/v1/classes/{part(options.class_id)}")


def _identifier(client: Client, given: str) -> str:
    """Return the identifier of a class that is named by it, by its beginning, or by its name."""
    found = client.get("/v1/class-history")
    known = (Named(str(item["class_id"]), item["name"], item["state"] == _ACTIVE) for item in found)
    return resolve(given, known, "class", "auricle-aggregator classes --all")
