"""``round`` and ``rounds``: open a round at a running server, watch it, cancel it, list all."""

import argparse
import json
import sys
import time
from datetime import datetime
from typing import Any

from aggregator_server.client import Client
from aggregator_server.commands import Commands, add_json, duration, show, tell, text_of
from aggregator_server.commands.targets import add_server, connect
from aggregator_server.commands.watching import print_left_out, state_of, watch
from aggregator_server.errors import AggregatorError

_PATIENCE_S, _PAUSE_S = 10.0, 0.5
_COLUMNS = ("round", "state", "strategy", "opened", "took", "uploaded", "learned", "kept own", "reason")


def add(commands: Commands) -> None:
    """Add the commands."""
    group = commands.add_parser("round", help="open a round, watch it, cancel it")
    actions = group.add_subparsers(required=True, metavar="ACTION")
    start = actions.add_parser("start", help="open a round for the devices that are enrolled now")
    _add_plan(start)
    start.add_argument("--watch", action="store_true", help="then follow it, as `round watch` does")
    start.set_defaults(run=_start)
    follow = actions.add_parser(
        "watch", help="follow a round until it ends; exits with 0 where it is done, else with 3"
    )
    follow.add_argument("round", type=int, nargs="?", metavar="NUMBER", help="as `rounds` shows it (the newest)")
    follow.set_defaults(run=_watch)
    for parser in (start, follow):
        said = "follow it until every device has applied the result, but those that are away"
        parser.add_argument("--learned", action="store_true", help=said)
    cancel = actions.add_parser("cancel", help="end the open round without a result")
    cancel.add_argument("round", type=int, metavar="NUMBER", help="as `rounds` shows it")
    cancel.set_defaults(run=_cancel)
    listing = commands.add_parser("rounds", help="list the rounds, newest first")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (20)")
    listing.add_argument("--before", type=int, metavar="NUMBER", help="only rounds with a smaller number")
    listing.set_defaults(run=_list)
    for parser in (start, follow, cancel, listing):
        add_server(parser)
        add_json(parser)


def _add_plan(start: argparse.ArgumentParser) -> None:
    """Add the options that say what the round shall do; docs/methods.md lists strategies, methods and settings."""
    start.add_argument("strategy", nargs="?", help="docs/methods.md lists them (what serves this fleet best)")
    said = "a setting of the strategy's local method; may be repeated"
    start.add_argument("--set", action="append", type=_setting, default=[], metavar="NAME=VALUE", help=said)
    for part, text in _PART_HELP.items():
        flag = f"--{part.replace('_', '-')}"
        start.add_argument(flag, type=choice, metavar="NAME[:SETTING=VALUE,...]", help=text)
    start.add_argument("--deadline", type=duration, metavar="TIME", help="when it ends at the latest, like 10m (10m)")
    start.add_argument("--quorum", type=float, metavar="SHARE", help="of the devices: if fewer upload, it fails (0.5)")
    start.add_argument("--seed", type=int, metavar="N", help="of everything random (0)")
    said = "devices hide their numbers in sums of groups of so many at least (16), which alone the server learns"
    start.add_argument("--private", type=int, nargs="?", const=16, metavar="SIZE", help=said)
    said = "in a private round: what it may tell of a device, by noise in the sums (no noise)"
    start.add_argument("--epsilon", type=float, metavar="NUMBER", help=said)
    start.add_argument("--new-classes", type=int, metavar="N", help="how many new sounds there are, if known")


_PART_HELP = {
    "aggregation": "rule that combines the uploads",
    "selection": "rule that selects the devices",
    "personalisation": "how each device makes the result its own",
}


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must look like epochs=8, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def choice(text: str) -> dict[str, Any]:
    """Return a method with settings, such as ``krum:adversaries=2``."""
    name, _, settings = text.partition(":")
    return {"name": name, "settings": dict(_setting(item) for item in settings.split(",") if item)}


def _start(options: argparse.Namespace) -> int:
    client, plan = connect(options), _plan_of(options)
    _await_device(client)
    opened = client.send("POST", "/v1/rounds", plan)
    print_left_out(client, int(opened["round_id"]))
    if options.watch or options.learned:
        return watch(client, int(opened["round_id"]), learned=options.learned, as_json=options.json)
    _tell_of(options, opened, "is open")
    if not options.json:
        print("follow it: auricle-aggregator round watch", file=sys.stderr)
    return 0


def _await_device(client: Client) -> None:
    """Wait a moment for the first device: one that was just told to join takes seconds to come."""
    give_up = None
    while not any(info["revoked_at"] is None for info in client.get("/v1/devices")):
        if give_up is None:
            print("no device has joined yet; waiting a moment for one", file=sys.stderr, flush=True)
            give_up = time.monotonic() + _PATIENCE_S
        if time.monotonic() >= give_up:
            return
        time.sleep(_PAUSE_S)


def _plan_of(options: argparse.Namespace) -> dict[str, Any]:
    given = {
        "strategy": options.strategy,
        "settings": dict(options.set) or None,
        "deadline_s": options.deadline,
        "quorum": options.quorum,
        "seed": options.seed,
        "new_classes": options.new_classes,
        "private": _private_of(options),
    } | {part: getattr(options, part) for part in _PART_HELP}
    return {name: value for name, value in given.items() if value is not None}


def _private_of(options: argparse.Namespace) -> dict[str, Any] | None:
    if options.private is None:
        if options.epsilon is not None:
            raise AggregatorError("--epsilon is of a private round: give --private, too")
        return None
    return {"groups": options.private} | ({} if options.epsilon is None else {"epsilon": options.epsilon})


def _watch(options: argparse.Namespace) -> int:
    client = connect(options)
    number = options.round
    if number is None:
        found = client.get("/v1/rounds", limit=1)
        if not found:
            raise AggregatorError("there is no round yet; open one: auricle-aggregator round start")
        number = int(found[0]["round_id"])
    return watch(client, number, learned=options.learned, as_json=options.json)


def _cancel(options: argparse.Namespace) -> int:
    _tell_of(options, connect(options).send("DELETE", f"/v1/rounds/{options.round}"), "is cancelled")
    return 0


def _tell_of(options: argparse.Namespace, summary: dict[str, Any], verb: str) -> None:
    text = f"round {summary['round_id']} {verb}: {summary['strategy']}, {summary['selected']} devices"
    tell(options, summary, text)


def _list(options: argparse.Namespace) -> int:
    found = connect(options).get("/v1/rounds", limit=options.limit, before=options.before)
    show(found if options.json else [_row(item) for item in found], _COLUMNS, as_json=options.json)
    return 0


def _row(item: dict[str, Any]) -> dict[str, Any]:
    opened, closed = item["opened_at"], item["closed_at"]
    took = None if closed is None else datetime.fromisoformat(closed) - datetime.fromisoformat(opened)
    state = f"{state_of(item)}, undone" if item["undone_by"] else state_of(item)
    return {
        "round": item["round_id"],
        "state": state,
        "strategy": (item["operation"] or item["strategy"]) + (", private" if item.get("private") else ""),
        "opened": text_of(opened),
        "took": None if took is None else f"{took.total_seconds():.0f} s",
        "uploaded": f"{item['uploaded']} of {item['selected']}",
        "learned": item["learned"],
        "kept own": item["kept_own"],
        "reason": item["reason"],
    }
