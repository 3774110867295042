"""``events``: what the device heard, from its journal; ``rules``: what is done then, what waits, and a test of one."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING

from edge_client.commands import Commands, open_device, report, set_command
from fleet_protocol.ground.command_line import confirm, span_s

if TYPE_CHECKING:
    from edge_client.config import Config

_LISTED, _MOST = 20, 1_000_000_000


def add(commands: Commands) -> None:
    """Add the commands."""
    events = commands.add_parser("events", help="list what the device heard")
    events.add_argument("--label", help="only this label; unknown: unknown sounds")
    events.add_argument("--input", help="only of this microphone or stream")
    events.add_argument("--since", metavar="TIME", help="30m, 2h, 3d, or a date and time such as 2026-01-31T18:00")
    events.add_argument("--until", metavar="TIME", help="likewise")
    events.add_argument("--count", type=int, metavar="N", help=f"the newest N ({_LISTED}; with --csv all)")
    events.add_argument("--csv", action="store_true", help="print a table for spreadsheets instead")
    about = "remove the past events of a label, or without one all of --since to --until, instead"
    events.add_argument("--forget", metavar="LABEL", nargs="?", const="", help=about)
    events.add_argument("--yes", action="store_true", help="do not ask before --forget")
    set_command(events, _events)
    rules = commands.add_parser("rules", help="list the rules, and what they have still to tell; test one")
    rules.add_argument("--test", metavar="RULE", help="have the daemon do what this rule does, as if it applied now")
    rules.add_argument("--label", default="test", help="of the sound that --test makes up (%(default)s)")
    set_command(rules, _rules)


def _events(options: argparse.Namespace) -> int:
    from edge_client.audio.recordings import is_unicode
    from edge_client.config import load_config
    from edge_client.errors import ConfigError
    from edge_client.events.history import as_csv, every
    from edge_client.events.journal import Chosen, past_events
    from edge_client.storage.database import FILE, Database

    config = load_config(options.config)
    database = Database(config.device.state / FILE)
    for name in ("label", "input", "forget"):
        if not is_unicode(given := getattr(options, name) or ""):
            raise ConfigError(f"--{name} {given!r} is no text in UTF-8")
    period = _time("--since", options.since, 0.0), _time("--until", options.until, Chosen.until)
    if options.forget is not None:
        return _forget(config, options, *period)
    if options.count is not None and not 1 <= options.count <= _MOST:
        raise ConfigError(f"--count must be from 1 to {_MOST}, not {options.count}")
    chosen = Chosen(*period, options.label, input=options.input)
    if options.csv:
        found = every(database, chosen) if options.count is None else past_events(database, options.count, chosen)
        sys.stdout.writelines(as_csv(found))
        return 0
    found = past_events(database, options.count or _LISTED, chosen)
    lines = [
        f"{datetime.fromtimestamp(event.time).isoformat(' ', 'seconds')}  {event.label:<24} score {event.score:.2f}  "
        f"{event.level_db:6.1f} dB"
        + (f"  {event.input}" if event.input else "")
        + (f"  perhaps: {event.guess}" if event.guess else "")
        + ("" if event.lasted_s is None else f"  for {event.lasted_s:.0f} s")
        for event in found
    ]
    nothing = "nothing was heard" + (" in that time" if options.since or options.until else "")
    return report([event.to_json() for event in found], lines or [nothing], json=options.json)


def _forget(config: Config, options: argparse.Namespace, since: float, until: float) -> int:
    from edge_client.errors import ConfigError
    from edge_client.owner_changes import forget_heard

    for option in ("input", "count"):  # else more would go than was meant
        if getattr(options, option) is not None:
            raise ConfigError(f"--forget removes events of all inputs, and takes no --{option}; leave it out")
    label = options.forget or options.label
    if not (label or options.since or options.until):
        raise ConfigError("--forget needs a label, or --since or --until, of what it removes")
    which = f"of {label!r}" if label else "of all sounds"
    between = "".join(f" {name} {given}" for name in ("since", "until") if (given := getattr(options, name)))
    confirm(f"remove the past events {which}{between}", yes=options.yes)
    removed = forget_heard(config, label, since, until)
    return report({"removed": removed}, [f"{removed} events were removed"], json=options.json)


def _time(option: str, given: str | None, otherwise: float) -> float:
    """Return a time in seconds since 1970. Raises ConfigError if it is none."""
    from edge_client.errors import ConfigError

    if given is None:
        return otherwise
    if (span := span_s(given)) is not None:
        return time.time() - span
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{option} {given!r} is no time; write it like 30m, 2h, 3d or 2026-01-31T18:00") from error


def _rules(options: argparse.Namespace) -> int:
    from edge_client.rules.owners import Rules

    config, state = open_device(options)
    rules = Rules(state, config)
    if options.test is not None:
        done = rules.test(options.test, options.label)
        return report({"done": done}, [f"done: {', '.join(done)}"], json=options.json)
    found, (lost, why) = rules.listed(), rules.lost()
    lines = [
        f"{one['name']}: {', '.join(one['does'])}"
        + (f"; {one['waiting']} to tell" if one["waiting"] else "")
        + (f": {one['error']}" if one["error"] else "")
        for one in found
    ]
    lines = lines or ["there are no rules: docs/rules.md says how to write one"]
    lines += [f"{lost} messages were lost, the last one because: {why}"] if lost else []
    return report({"rules": found, "lost": lost, "why": why}, lines, json=options.json)
