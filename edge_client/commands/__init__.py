"""The commands of ``auricle-edge``, a module for each group; :mod:`edge_client.cli` puts them together."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Subparsers have no public name.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    Command = Callable[[argparse.Namespace], int]

# Where `make install-edge` puts the configuration.
CONFIG = Path("/etc/auricle/edge.toml")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Give a command the option that names the configuration."""
    parser.add_argument(
        "--config", type=Path, default=CONFIG, metavar="FILE", help=f"TOML; docs/device.md lists the keys ({CONFIG})"
    )
