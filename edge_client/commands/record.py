"""``record``: takes of a sound, from the device's microphone into the clip store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from edge_client.commands import add_config, add_json
from edge_client.commands.waiting import add_wait, wait_until_learned
from fleet_protocol.command_line import INTERRUPTED, print_json

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    record = commands.add_parser("record", help="teach a sound: record some takes of it")
    record.add_argument("--label", required=True, help="what it is a sound of")
    record.add_argument("--count", type=int, default=20, metavar="N", help="good takes wanted (20)")
    record.add_argument("--seconds", type=float, metavar="S", help="length of a take (a second more than a clip)")
    record.add_argument("--quiet", action="store_true", help="without a beep before a take and a sound after it")
    add_wait(record)
    add_json(record)
    add_config(record)
    record.set_defaults(command=_record)


def _record(options: argparse.Namespace) -> int:
    from edge_client.capture.cues import Cues
    from edge_client.clips.level_meter import display_for
    from edge_client.owner import Teaching

    teaching = Teaching.open(options.config)
    label = teaching.require_slot(options.label)
    display = display_for(sys.stderr if options.json else sys.stdout)
    before, interrupted = len(teaching.store.clips(label)), False
    try:
        teaching.record(label, options.count, options.seconds, display, None if options.quiet else Cues())
    except KeyboardInterrupt:
        display.say("stopped")
        interrupted = True
    kept = len(teaching.store.clips(label))
    if options.wait:
        wait_until_learned(teaching)
    if options.json:
        print_json({"label": label, "kept": kept - before, "clips": kept})
    else:
        after = "" if options.wait else teaching.after()
        display.say(f"{kept - before} takes were kept; {label!r} has {kept}. {after}")
    if interrupted:
        return INTERRUPTED
    return 0 if kept - before >= options.count else 1
