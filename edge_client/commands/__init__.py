"""The commands of ``auricle-edge``, a module for each group; :mod:`edge_client.cli` puts them together."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fleet_protocol.errors import printable
from fleet_protocol.ground.command_line import print_json

if TYPE_CHECKING:
    from edge_client.config import Config
    from edge_client.owner import Teaching
    from edge_client.storage.device_state import DeviceState

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # which has no public name
Command: TypeAlias = Callable[[argparse.Namespace], int]


def set_command(
    parser: argparse.ArgumentParser,
    command: Command,
    *,
    config: bool = True,
    json: bool = True,
    below: bool = False,
    search: bool = True,
) -> None:
    """Give a parser its function, and the options that name the configuration and ask for JSON, where it has them.

    Args:
        below: Whether it is an action of a command that has the options too: then their absence behind the action must
            not undo what was given before it.
        search: Whether it needs a configuration that is there: where none is named, it is searched for first.
    """
    parser.set_defaults(command=command)
    if json:
        default = argparse.SUPPRESS if below else False
        parser.add_argument("--json", action="store_true", default=default, help="print one JSON document")
    if config:
        help_ = "TOML; docs/device.md lists the keys (AURICLE_CONFIG, else edge.toml here, else /etc/auricle/edge.toml)"
        default_file = argparse.SUPPRESS if below else None
        parser.add_argument("--config", type=Path, default=default_file, metavar="FILE", help=help_)
        parser.set_defaults(search=search)


def open_teaching(options: argparse.Namespace) -> Teaching:
    """Open the device that the options name, as its owner teaches it."""
    from edge_client.owner import Teaching

    return Teaching.open(options.config)


def open_device(options: argparse.Namespace) -> tuple[Config, DeviceState]:
    """Return the configuration that the options name, and the device's state."""
    from edge_client.config import load_config
    from edge_client.storage.device_state import DeviceState

    config = load_config(options.config)
    return config, DeviceState(config.device.state)


def report(document: object, lines: Iterable[str], *, json: bool) -> int:
    """Print a document as JSON, or lines for people; return the exit status 0."""
    if json:
        print_json(document)
    else:
        for line in lines:
            print(printable(line))
    return 0


def local_time(iso: str) -> str:
    """Return a time of a JSON document as people read it, on this machine's clock."""
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")
