"""``rules``: what is done when something is heard, what waits, and a test of one rule."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from edge_client.commands import Commands, report, set_command

if TYPE_CHECKING:
    from edge_client.config import Config
    from edge_client.rules.outbox import Outbox
    from edge_client.storage.device_state import DeviceState

_TEST_S, _LOOK_S = 60.0, 0.2


def add(commands: Commands) -> None:
    """Add the command."""
    rules = commands.add_parser("rules", help="list the rules, and what they have still to tell; test one")
    rules.add_argument("--test", metavar="RULE", help="have the daemon do what this rule does, as if it applied now")
    rules.add_argument("--label", default="test", help="of the sound that --test makes up (%(default)s)")
    set_command(rules, _rules)


def _rules(options: argparse.Namespace) -> int:
    from edge_client.config import load_config
    from edge_client.rules.actions import actions_of
    from edge_client.rules.outbox import Outbox
    from edge_client.storage.device_state import DeviceState

    config = load_config(options.config)
    state = DeviceState(config.device.state)
    outbox = Outbox(state.database)
    if options.test is not None:
        return _test(options, config, state, outbox)
    waiting, (lost, why) = outbox.waiting(), outbox.lost()
    found = [
        {
            "name": rule.name,
            "does": actions_of(rule),
            "waiting": sum(message.rule == rule.name for message in waiting),
            "error": next((message.error for message in waiting if message.rule == rule.name and message.error), ""),
        }
        for rule in config.rules
    ]
    lines = [
        f"{rule.name}: {', '.join(actions_of(rule))}"
        + (f"; {one['waiting']} to tell" if one["waiting"] else "")
        + (f": {one['error']}" if one["error"] else "")
        for rule, one in zip(config.rules, found, strict=True)
    ]
    lines = lines or ["there are no rules: docs/rules.md says how to write one"]
    lines += [f"{lost} messages were lost, the last one because: {why}"] if lost else []
    return report({"rules": found, "lost": lost, "why": why}, lines, json=options.json)


def _test(options: argparse.Namespace, config: Config, state: DeviceState, outbox: Outbox) -> int:
    """Let the daemon do it, whose network and rights are those that count."""
    from edge_client.errors import ConfigError, StateError
    from edge_client.events import Event
    from edge_client.rules.actions import actions_of
    from edge_client.rules.conditions import Occurrence
    from edge_client.rules.sink import told

    rules = {rule.name: rule for rule in config.rules}
    if options.test not in rules:
        raise ConfigError(f"there is no rule {options.test!r}; there are: {', '.join(rules) or 'none'}")
    if not state.locked("daemon"):
        raise StateError("the daemon does not run, which tells what rules say: auricle-edge run")
    event = Event(time.time(), "detected", options.label, None, 1.0, -20.0)
    rule = rules[options.test]
    actions, document = actions_of(rule), told(rule, Occurrence.of_event(event), config.device.name, test=True)
    numbers = outbox.add(rule.name, actions, document, time.time())
    give_up = time.monotonic() + _TEST_S
    while True:
        waiting = [one for one in outbox.waiting() if one.number in numbers]
        if all(one.error for one in waiting) or time.monotonic() > give_up:
            break
        time.sleep(_LOOK_S)
    for one in waiting:
        outbox.done(one)
    if waiting:
        failed = "; ".join(f"{one.action}: {one.error or f'not done within {_TEST_S:g} s'}" for one in waiting)
        raise StateError(f"rule {options.test!r}: {failed}")
    done = f"done: {', '.join(actions)}"
    return report({"done": actions}, [done], json=options.json)
