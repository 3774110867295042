"""The reference pages, written from the code: commands from their parsers, keys from their dataclasses, REST from the
server's own schema. The site is the only place where they stand, so they cannot be out of date.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import tempfile
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aggregator_server.cli
import edge_client.cli
import fleet_simulator.cli
import model_export.cli
from aggregator_server.security import Tokens
from aggregator_server.store.opening import open_store
from aggregator_server.web.app import create_app
from edge_client.config import section_classes

Json = dict[str, Any]

_NO_BRACKETS = str.maketrans("", "", "[]")

PROGRAMS = (edge_client.cli, aggregator_server.cli, fleet_simulator.cli, model_export.cli)


def commands() -> str:
    """Return the page of all commands and their options."""
    parts = ["# Commands", "Each program prints this with `--help`."]
    for program in PROGRAMS:
        parser = program.parser()
        parts += [f"## {parser.prog}", _text(parser.description), *_options(parser)]
        for name, command in _subcommands(parser):
            parts += _command(f"{parser.prog} {name}", command)
    return "\n\n".join(part for part in parts if part) + "\n"


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### {name}"
    yield _text(parser.description)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield f"```\n{usage}\n```"
    yield from _options(parser)
    for inner, command in _subcommands(parser):
        yield from _command(f"{name} {inner}", command)


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            abouts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                if not command.description:
                    command.description = abouts.get(name, "").capitalize()
                yield name, command


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        value = "" if action.nargs == 0 else f" {_value(action)}"
        names = ", ".join(f"`{name}{value}`" for name in action.option_strings) or f"`{_value(action)}`"
        rows.append(f"| {_cell(names)} | {_cell(_help(parser, action))} |")
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows])


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    values = {**vars(action), "prog": parser.prog}
    return (action.help or "") % values


def configuration() -> str:
    """Return the page of every key of a device's configuration file; docs/device.md says what each means."""
    parts = [
        "# Configuration of a device",
        "What `--config` or the environment's `AURICLE_CONFIG` names, else `edge.toml` in this folder, else "
        "`/etc/auricle/edge.toml`. [A device](../device.md#configuration) says what the defaults mean in use.",
    ]
    meanings = _meanings()
    for name, section in section_classes().items():
        about = re.sub(r"``\[[\w.]+\]``[;:,]?\s*", "", " ".join((section.__doc__ or "").split())).strip(". ")
        parts += [f"## [{name}]", f"{about[:1].upper()}{about[1:]}."] if about else [f"## [{name}]"]
        rows = [
            f"| `{key.name}` | {_type(section, key.name)} | {_default(key)} | {meanings[f'{name}.{key.name}']} |"
            for key in dataclasses.fields(section)
        ]
        parts.append("\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _meanings() -> dict[str, str]:
    """Return what each key means, by section and key, from the table of docs/device.md."""
    text = (Path(__file__).parents[1] / "device.md").read_text(encoding="utf-8")
    text = text.replace("](#", "](device.md#").replace("](", "](../")
    rows = re.findall(r"^\| `\[([\w.]+)\] (\w+)` \|.*?\| (.+) \|$", text, re.MULTILINE)
    return {f"{section}.{key}".removesuffix(".LABEL"): meaning for section, key, meaning in rows}


def _type(section: type[Any], key: str) -> str:
    hint = typing.get_type_hints(section)[key]
    text = getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
    text = re.sub(r"\b(?:\w+\.)+", "", text).replace(" | None", "").replace(", ...", "")
    words = {
        "str": "text",
        "bool": "true or false",
        "float": "number",
        "int": "whole number",
        "Path": "path",
        "Literal": "one of ",
        "tuple": "list of ",
        "dict": "table of ",
    }
    return _cell(re.sub(rf"\b({'|'.join(words)})\b", lambda found: words[found[0]], text).translate(_NO_BRACKETS))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "none"
    if field.default is dataclasses.MISSING:
        return "required"
    if field.default is None:
        return "none"
    value = str(field.default).lower() if isinstance(field.default, bool) else repr(field.default)
    return f"`{value}`".replace("'", '"')


def rest() -> str:
    """Return the page of every address of the aggregator."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(open_store(Path(folder))) as store:
        schema = create_app(store, Tokens("", "")).openapi()
    parts = [
        "# REST",
        f"The running aggregator describes this to programs at `/openapi.json`. "
        f"[The protocol](../protocol.md) says what a round is made of. Version {schema['info']['version']}.",
        schema["info"]["description"],
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts += _operation(method, path, operation)
    parts.append("## Messages")
    for name, message in sorted(schema["components"]["schemas"].items()):
        parts += _message(name, message)
    return "\n\n".join(part for part in parts if part) + "\n"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"## {operation['summary']}"
    yield f"```\n{method.upper()} {path}\n```"
    yield _text(operation.get("description", ""))
    tokens = sorted({name for requirement in operation.get("security", []) for name in requirement})
    yield f"Token: {' or '.join(tokens) or 'none'}."
    rows = [
        f"| `{item['name']}` | {item['in']} | {_kind(item.get('schema', {}))} | {_cell(item.get('description', ''))} |"
        for item in operation.get("parameters", [])
    ]
    if rows:
        yield "\n".join(["| parameter | in | type | meaning |", "|---|---|---|---|", *rows])
    for media, item in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body (`{media}`): {_kind(item.get('schema', {}))}."
    answers = []
    for status, answer in sorted(operation["responses"].items()):
        kinds = " ".join(_kind(item.get("schema", {})) for item in answer.get("content", {}).values())
        answers.append(f"| {status} | {kinds} | {_cell(answer.get('description', ''))} |")
    yield "\n".join(["| status | body | meaning |", "|---|---|---|", *answers])


def _message(name: str, message: Json) -> Iterator[str]:
    yield f"### {name}"
    about, _, _ = message.get("description", "").partition("Attributes:")
    yield _text(about)
    required = message.get("required", [])
    rows = [
        f"| `{key}` | {_kind(value)} | {'yes' if key in required else ''} | {_cell(value.get('description', ''))} |"
        for key, value in message.get("properties", {}).items()
    ]
    if rows:
        yield "\n".join(["| key | type | required | meaning |", "|---|---|---|---|", *rows])


def _kind(schema: Json) -> str:
    """Name a schema, with a link where it is a message of its own."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "items" in schema:
        return f"list of {_kind(schema['items'])}"
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    return _cell(" ".join(str(schema[key]) for key in ("type", "format") if key in schema))


def _text(value: str | None) -> str:
    """Return prose of a docstring or a help text as Markdown, in one line."""
    parts = re.sub(r":\w+:`", "`", " ".join((value or "").split())).replace("``", "`").split("`")
    prose = [part.replace("<", "&lt;").replace("[", "\\[") for part in parts[::2]]
    parts[::2] = prose
    return "`".join(parts)


def _cell(value: str) -> str:
    return _text(value).replace("|", "\\|")
