"""``rules``: what is done when something is heard, what waits, and a test of one rule."""

from __future__ import annotations

import argparse

from edge_client.commands import Commands, report, set_command


def add(commands: Commands) -> None:
    """Add the command."""
    rules = commands.add_parser("rules", help="list the rules, and what they have still to tell; test one")
    rules.add_argument("--test", metavar="RULE", help="have the daemon do what this rule does, as if it applied now")
    rules.add_argument("--label", default="test", help="of the sound that --test makes up (%(default)s)")
    set_command(rules, _rules)


def _rules(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.rules.owners import Rules
    from edge_client.storage.device_state import DeviceState

    config = load_config(options.config)
    rules = Rules(DeviceState(config.device.state), config)
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
