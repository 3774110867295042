"""Every `auricle-*` command that a message or a page advises is one: its program's parser takes it."""

import argparse
import ast
import re
import shlex
from functools import cache

import pytest

from aggregator_server import cli as aggregator
from edge_client import cli as edge
from fleet_simulator import cli as simulator
from model_export import cli as export
from tests.support.checkout import ROOT

PROGRAMS = {"edge": edge, "aggregator": aggregator, "sim": simulator, "export": export}
PACKAGES = ("aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator", "model_export")
COMMAND = re.compile(r"\bauricle-(edge|aggregator|sim|export) (.*)")
# Where a command ends that stands in a sentence, and what of a shell follows one.
ENDS = re.compile(r"[;,()`|>&<#]|\.$|\. |: |\$\(| or | and | in | to | on | where ")
SHELL = ("|", ">", ">>", "&", "&&", "<", "#", "2>&1")


@cache
def relaxed(program: str) -> argparse.ArgumentParser:
    """A program's parser for commands that are cited in part: nothing is required, and a word stands for a number."""

    def relax(parser):
        parser.exit_on_error = False
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                action.required = False
                for one in action.choices.values():
                    relax(one)
                continue
            action.required, action.type = False, None
            if not action.option_strings:
                action.nargs = {None: "?", "+": "*"}.get(action.nargs, action.nargs)
            if action.choices is not None:
                action.choices = None
        for group in parser._mutually_exclusive_groups:
            group.required = False
        return parser

    return relax(PROGRAMS[program].parser())


def problem(program: str, words: str) -> str:
    """Why a program does not take a command; "" where it does."""
    try:
        parts = shlex.split(words)
    except ValueError as error:
        return str(error)
    stop = next((at for at, part in enumerate(parts) if part in SHELL), len(parts))
    if "..." in parts or "…" in parts or not parts[:stop] or parts[0] == "X":
        return ""
    try:
        relaxed(program).parse_args(parts[:stop])
    except SystemExit as error:
        return "refused" if error.code else ""  # --help ends a program too
    except argparse.ArgumentError as error:
        # An option whose value is left out is cited, not advised.
        return "" if "expected one argument" in str(error) and parts[:stop][-1].startswith("-") else str(error)
    return ""


def texts(tree: ast.AST):
    """The texts of a module, with X for what is filled in; without its docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:  # what is filled in behind a word are options, which may be none
                glued = text[-1:].isalpha()
                text += part.value if isinstance(part, ast.Constant) else "" if glued else "X"
            yield text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docs | inside):
            yield node.value


def cited(text: str):
    """Commands in a message: between backticks whole, else to the end of the sentence's part."""
    for quoted in re.findall(r"`(auricle-[^`]*)`", text):
        if found := COMMAND.match(quoted):
            yield found[1], found[2]
    for found in COMMAND.finditer(re.sub(r"`[^`]*`", "", text)):
        yield found[1], ENDS.split(found[2])[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_message_advises_is_a_command(package, capsys):
    bad = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        for text in texts(ast.parse(path.read_bytes())):
            for program, words in cited(text):
                if why := problem(program, words):
                    bad[f"{path.name}: auricle-{program} {words}"] = why + capsys.readouterr().err[-100:]
    assert list(bad.items()) == []


def test_what_a_page_shows_is_a_command(capsys):
    bad = {}
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        page = path.read_text()
        blocks = "\n".join(re.findall(r"^```(?:bash|sh|console)?\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
        lines = [line.strip() for line in blocks.replace("\\\n", " ").splitlines()]
        commands = [found for line in lines if (found := re.match(COMMAND.pattern, line.removeprefix("$ ")))]
        prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
        quoted = [found for text in re.findall(r"`([^`]+)`", prose) if (found := COMMAND.match(" ".join(text.split())))]
        for found in [*commands, *quoted]:
            words = found[2].split("  #")[0].split(" # ")[0]
            if why := problem(found[1], words.replace("<", "").replace(">", "").replace("[", "").replace("]", "")):
                bad[f"{path.name}: {found[0]}"] = why + capsys.readouterr().err[-100:]
    assert list(bad.items()) == []
