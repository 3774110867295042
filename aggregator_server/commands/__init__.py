"""The commands of ``auricle-aggregator``, a module for each group; :mod:`aggregator_server.cli` puts them together."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from aggregator_server.errors import AggregatorError
from aggregator_server.store.location import Location, locate_by
from fleet_protocol.ground.command_line import span_s

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from aggregator_server.store.store import Tables

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # they have no public name


def add_data(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Give a command the options that name the data folder, and where the state is that is not in it."""
    default = None if required else argparse.SUPPRESS
    parser.add_argument("--data", type=Path, required=required, default=default, help="the server's data folder")
    add_state(parser, below=not required)


def add_state(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """Give a command the options that say where the state is which is not in the data folder; ``below`` as below."""
    default = argparse.SUPPRESS if below else None
    said = (
        "PostgreSQL instead of SQLite in the data folder, like postgresql://user@host/auricle (or "
        "$AURICLE_DATABASE; there or in ~/.pgpass, a password is hidden from other users)"
    )
    parser.add_argument("--database", default=default, metavar="URL", help=said)
    said = (
        "where arrays are, instead of the data folder: s3://bucket/prefix, gs://, az://, or a folder (or "
        "$AURICLE_STORE)"
    )
    parser.add_argument("--store", default=default, metavar="URL", help=said)


def location_of(options: argparse.Namespace) -> Location:
    """Return where the state is, as the options or the environment say.

    Raises AggregatorError: there is no data folder. StartError: an address is none.
    """
    if options.data is None:
        raise AggregatorError("--data is missing: the data folder that the server runs with")
    return locate_by(options.data, options.database, options.store, os.environ)


def tables_of(options: argparse.Namespace) -> Tables:
    """Open the tables of the fleet that the options name; a server may run. Raises StartError: there is none."""
    from aggregator_server.store.opening import open_tables  # heavy: SQLAlchemy

    return open_tables(location_of(options))


def tell(options: argparse.Namespace, document: object, text: str) -> None:
    """Print what a command did, as JSON or in words."""
    print(json.dumps(document) if options.json else text)


def add_json(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """Give a command the option to print JSON.

    ``below``: it is an action of one that has it too; its absence behind the action must not undo what stands before.
    """
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS if below else False, help="as JSON")


def duration(text: str) -> float | None:
    """Return the seconds of a time such as ``90m``, ``12h`` or ``30d``; None for ``never``."""
    if text == "never":
        return None
    if not (found := span_s(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it like 90m, 12h, 30d, or never")
    return found


def show(
    rows: Sequence[DataclassInstance] | Sequence[Mapping[str, Any]], columns: Iterable[str], *, as_json: bool
) -> None:
    """Print rows, as JSON in full or as a table of some columns for people."""
    documents = [row if isinstance(row, Mapping) else dataclasses.asdict(row) for row in rows]
    if as_json:
        print(json.dumps(documents, default=lambda one: one.isoformat() if isinstance(one, datetime) else str(one)))
        return
    names = list(columns)
    print_table(names, [[text_of(row.get(name)) for name in names] for row in documents])


def print_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table in columns of blanks."""
    widths = [max(len(line[index]) for line in (head, *lines)) for index in range(len(head))]
    for line in (head, *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def text_of(value: Any) -> str:  # noqa: ANN401  (any column's)
    """Return a value of a table as people read it; "-" for none."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)", value):
        value = datetime.fromisoformat(value)  # of an answer
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items() if item is not None)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text_of, value)) or "-"
    return "-" if value is None else str(value)
