"""The commands of ``auricle-aggregator``, a module for each group; :mod:`aggregator_server.cli` puts them together."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    # Subparsers have no public name.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    Command = Callable[[argparse.Namespace], int]

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def add_data(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Give a command the option that names the data folder."""
    default = None if required else argparse.SUPPRESS
    parser.add_argument("--data", type=Path, required=required, default=default, help="the server's data folder")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Give a command the option to print JSON."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def duration(text: str) -> float | None:
    """Return the seconds of a time such as ``90m``, ``12h`` or ``30d``; None for ``never``.

    Raises:
        argparse.ArgumentTypeError: it is no time.
    """
    if text == "never":
        return None
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if not found or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it like 90m, 12h, 30d, or never")
    return float(int(found[1]) * _UNITS_S[found[2]])


def show(rows: Sequence[DataclassInstance], columns: Iterable[str], *, as_json: bool) -> None:
    """Print rows, as JSON in full or as a table of some columns for people."""
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], default=_plain))
        return
    names = list(columns)
    table = [names, *([_text(getattr(row, name)) for name in names] for row in rows)]
    widths = [max(len(line[index]) for line in table) for index in range(len(names))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _text(value: Any) -> str:  # noqa: ANN401  (any column's)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items() if item is not None)
    return "-" if value is None else str(value)
