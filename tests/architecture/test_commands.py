"""Every `auricle-*` command that a message or a page shows can be typed: its program's parser takes it.

A page's blocks are taken as they are; what a sentence cites may lack options and values.
"""

import argparse
import ast
import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator
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
NAMES = {f"auricle-{name}": program for name, program in PROGRAMS.items()}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


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


def test_what_a_sentence_of_a_page_cites_is_a_command(capsys):
    bad = {}
    for path in DOCUMENTS:
        prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        for text in re.findall(r"`([^`]+)`", prose):
            if found := COMMAND.match(" ".join(text.split())):
                words = re.sub(r"[<>\[\]]", "", found[2].split(" # ")[0])
                if why := problem(found[1], words):
                    bad[f"{path.name}: {found[0]}"] = why + capsys.readouterr().err[-100:]
    assert list(bad.items()) == []


def commands(text: str) -> list[list[str]]:
    """The words of each call of a program in a page's blocks; of what may be left out, the brackets are gone."""
    found = []
    for language, block in BLOCK.findall(text):
        if language not in ("", "sh", "bash", "console"):
            continue
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if not any(program in line for program in NAMES):
                continue
            words = shlex.shlex(line.replace("[", "").replace("]", ""), posix=True, punctuation_chars=True)
            words.whitespace_split = True
            found += calls(list(words))
    return found


def calls(words: list[str]) -> Iterator[list[str]]:
    """The commands of a line that call a program, without what runs them as another user."""
    for separator, part in itertools.groupby(words, key=lambda word: set(word) <= set(";&|<>()")):
        call = [word for word in part if word != "$"]
        if call[:1] == ["sudo"]:
            call = call[3:] if call[1:2] == ["-u"] else call[1:]
        if not separator and call and call[0] in NAMES:
            yield call


def refusal(call: list[str]) -> str:
    """What the program says of a command; "" where it takes it."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            NAMES[call[0]].parser().parse_args(call[1:])
        except SystemExit as ended:
            return said.getvalue() if ended.code else ""
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_a_page_is_taken(document):
    refused = {shlex.join(call): said for call in commands(document.read_text()) if (said := refusal(call))}
    assert refused == {}
