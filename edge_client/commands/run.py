"""``run``: the daemon."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from edge_client.commands import add_config

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    run = commands.add_parser("run", help="the daemon: listen, learn from the owner and from the fleet")
    add_config(run)
    run.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from edge_client.daemon.daemon import run

    return run(options.config)
