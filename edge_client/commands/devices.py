"""``devices``: lists the microphones."""

from __future__ import annotations

import argparse
import dataclasses
import sys

from edge_client.commands import Commands, report, set_command


def add(commands: Commands) -> None:
    """Add the command."""
    set_command(commands.add_parser("devices", help="list the microphones"), _devices, config=False)


def _devices(options: argparse.Namespace) -> int:
    from edge_client.capture.arecord import arecord_devices
    from edge_client.capture.sound_devices import presence

    found = arecord_devices()
    lines = (f"{device.name}  {device.description}".rstrip() for device in found)
    report([dataclasses.asdict(device) for device in found], lines, json=options.json)
    if not found:
        print(presence(found), file=sys.stderr)
    return 0 if found else 1
