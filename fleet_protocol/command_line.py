"""What the programs' command lines have in common: ``--version``, completion in a shell, exit statuses, JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NoReturn

NOT_RUNNING, ILL, INTERRUPTED, UNREAD = 3, 4, 130, 141
"""Exit statuses besides 0 (done), 1 (failed; a message says why) and 2 (wrong usage); docs/cli.md lists them all."""

_PACKAGE = "auricle"


class _Version(argparse.Action):
    """Prints the version of the installed package; it is looked up only then."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        _values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> NoReturn:
        print(f"{parser.prog} {version()}")
        parser.exit()


def version() -> str:
    """Return the version of the installed package; "unknown" where the sources run without an installation."""
    from importlib import metadata

    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"


def with_version(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give a program ``--version``."""
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line; where a shell asks for completions, print these and end.

    A shell asks after ``eval "$(register-python-argcomplete PROGRAM)"``; docs/cli.md, "Completion".

    Args:
        parser: The program's.
        arguments: The command line without the program's name; None: that of the process.
    """
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    return parser.parse_args(arguments)


def program(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """Let a program end as others do where Ctrl-C ends it (130), or where nobody reads on (``| head``; 141, silent)."""

    @wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        try:
            try:
                return main(arguments)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())  # what is left to write at the end goes there
            os.close(nowhere)
            return UNREAD

    return run


def print_json(document: object) -> None:
    """Print one JSON document on a line of its own, words of people as they are."""
    print(json.dumps(document, ensure_ascii=False))
