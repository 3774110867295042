"""The commands of ``auricle-edge``, a module for each group; :mod:`edge_client.cli` puts them together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Subparsers have no public name.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    Command = Callable[[argparse.Namespace], int]


def add_config(parser: argparse.ArgumentParser, *, below: bool = False, search: bool = True) -> None:
    """Give a command the option that names the configuration.

    Args:
        parser: The command's.
        below: Whether it is an action of a command that has the option too: then its absence behind the action must not
            undo what was given before it.
        search: Whether it needs a configuration that is there: where none is named, it is searched for first.
    """
    help_ = "TOML; docs/device.md lists the keys (AURICLE_CONFIG, else edge.toml here, else /etc/auricle/edge.toml)"
    default = argparse.SUPPRESS if below else None
    parser.add_argument("--config", type=Path, default=default, metavar="FILE", help=help_)
    parser.set_defaults(search=search)


def add_json(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """Give a command the option that makes it print JSON; ``below`` as in :func:`add_config`."""
    default = argparse.SUPPRESS if below else False
    parser.add_argument("--json", action="store_true", default=default, help="print one JSON document")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed that cannot be taken back so easily.

    Args:
        question: What is about to happen, for people.
        yes: Whether the answer was given on the command line.

    Raises:
        ConfigError: there is nobody to ask.
        KeyboardInterrupt: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        from edge_client.errors import ConfigError

        raise ConfigError(f"{question}? There is no terminal to ask on: say --yes")
    print(f"{question}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise KeyboardInterrupt
