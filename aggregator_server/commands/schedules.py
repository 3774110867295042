"""``schedule``: let rounds open by themselves, list what does, end it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from aggregator_server.commands import add_json, duration, show
from aggregator_server.commands.remote import add_server, connect
from aggregator_server.commands.rounds import add_plan, plan_of, send_agreed

if TYPE_CHECKING:
    from aggregator_server.commands import Commands

_COLUMNS = ("schedule", "strategy", "when", "next", "last round", "problem")


def add(commands: Commands) -> None:
    """Add the command."""
    group = commands.add_parser("schedule", help="let rounds open by themselves, list schedules, end one")
    actions = group.add_subparsers(required=True, metavar="ACTION")
    new = actions.add_parser("add", help="open rounds every day at a time, every so often, or one after the other")
    add_plan(new)
    when = new.add_mutually_exclusive_group(required=True)
    when.add_argument("--daily-at", metavar="HH:MM", help="every day at this time, like 03:00")
    when.add_argument("--interval", type=duration, metavar="TIME", help="now, and then so often, like 6h")
    when.add_argument("--continuous", action="store_true", help="each when the one before has closed")
    new.add_argument("--zone", metavar="ZONE", help="time zone of --daily-at, like Europe/Berlin (the server's)")
    new.set_defaults(run=_add)
    listing = actions.add_parser("list", help="list the schedules that go on")
    listing.set_defaults(run=_list)
    end = actions.add_parser("end", help="open no more rounds by a schedule")
    end.add_argument("schedule", type=int, metavar="NUMBER", help="as `schedule list` shows it")
    end.set_defaults(run=_end)
    for parser in (new, listing, end):
        add_server(parser)
        add_json(parser)


def _add(options: argparse.Namespace) -> int:
    given = {
        "daily_at": options.daily_at,
        "zone": options.zone,
        "interval_s": options.interval,
        "continuous": options.continuous or None,
    }
    when = {name: value for name, value in given.items() if value is not None}
    made = send_agreed(
        connect(options), options, "/v1/schedules", lambda plan: when | {"round": plan}, plan_of(options)
    )
    if options.json:
        print(json.dumps(made))
    else:
        show([_row(made)], _COLUMNS, as_json=False)
    return 0


def _list(options: argparse.Namespace) -> int:
    found = connect(options).get("/v1/schedules")
    if options.json:
        print(json.dumps(found))
    else:
        show([_row(item) for item in found], _COLUMNS, as_json=False)
    return 0


def _end(options: argparse.Namespace) -> int:
    connect(options).send("DELETE", f"/v1/schedules/{options.schedule}")
    print(json.dumps({"schedule_id": options.schedule}) if options.json else f"schedule {options.schedule} has ended")
    return 0


def _row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "schedule": item["schedule_id"],
        "strategy": item["round"]["strategy"],
        "when": _when(item),
        "next": item["next_at"],
        "last round": item["last_round"],
        "problem": item["problem"],
    }


def _when(item: dict[str, Any]) -> str:
    if item["daily_at"]:
        return f"daily at {item['daily_at']}" + (f" {item['zone']}" if item["zone"] else "")
    return "continuous" if item["continuous"] else f"every {item['interval_s'] / 3_600:g} h"
