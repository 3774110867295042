"""What the programs' command lines have in common: ``--version``, completion, exits, JSON, missing libraries."""

import argparse
import codecs
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NoReturn, TextIO

from fleet_protocol.errors import AuricleError

NOT_RUNNING, ILL, INTERRUPTED, UNREAD = 3, 4, 130, 141
"""Exit statuses besides 0 (done), 1 (failed; a message says why) and 2 (wrong usage); docs/cli.md lists them all."""

_PACKAGE = "auricle"


class _Version(argparse.Action):
    """Prints the version of the installed package and what a program adds to it; both are looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, more: Callable[[], str]) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")
        self._more = more

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        _values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> NoReturn:
        print(f"{parser.prog} {version()}{self._more()}")
        parser.exit()


def version() -> str:
    """Return the version of the installed package; "unknown" where the sources run without an installation."""
    from importlib import metadata

    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"


_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def span_s(text: str) -> float | None:
    """Return the seconds of a span such as ``90s``, ``30m`` (or ``30min``), ``12h`` or ``30d``; None: it is none."""
    found = re.fullmatch(r"([0-9]{1,6})(s|m|min|h|d)", text)
    return float(int(found[1]) * _UNITS_S[found[2]]) if found else None


def with_version(parser: argparse.ArgumentParser, more: Callable[[], str] = str) -> argparse.ArgumentParser:
    """Give a program ``--version``; ``more`` returns what is printed after the version."""
    parser.add_argument("--version", action=_Version, more=more)
    return parser


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line, None: that of the process; where a shell asks for completions, print these and end.

    A shell asks after ``eval "$(register-python-argcomplete PROGRAM)"``; docs/cli.md, "Completion".
    """
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    return parser.parse_args(arguments)


def _mend_standard_streams() -> None:
    """Open what of standard input, output and error is closed on nothing; what their encoding lacks is escaped.

    Else the next file that is opened, such as a database, would be the one that is written to; and a label in Chinese
    or a file's name that is no UTF-8 would be lost where the system's encoding lacks it.
    """
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  (until the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def json_line(document: object, stream: TextIO) -> str:
    """Return a JSON document on a line of its own, words of people as they are where the stream can say them."""
    whole = codecs.lookup(stream.encoding or "utf-8").name == "utf-8"
    return json.dumps(document, ensure_ascii=not whole) + "\n"


def program(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """Let a program end as others do where Ctrl-C ends it (130), or where nobody reads on (``| head``; 141, silent)."""

    @wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        _mend_standard_streams()
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
    sys.stdout.write(json_line(document, sys.stdout))


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change. Raises AuricleError: there is nobody to ask; KeyboardInterrupt: the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise AuricleError(f"{question}? There is no terminal to ask on: say --yes")
    print(f"{question}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise KeyboardInterrupt


_OWN = ("aggregator_server", "benchmarks", "edge_client", "fleet_protocol", "fleet_simulator", "model_export")


def describe_missing(error: ModuleNotFoundError, extra: str) -> str:
    """Return what to say of a library that is not there; ``extra``: of the package, which brings it.

    Raises ModuleNotFoundError: the error itself, where a module of Auricle's own is missing.
    """
    name = (error.name or "").partition(".")[0]
    if name in _OWN:
        raise error
    return f"the library {name} is not installed; needs: pip install 'auricle[{extra}]'"
