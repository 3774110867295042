"""Which test files `make test` can collect: those that import, themselves or through ours, what `test` installs.

`pip install '.[test]'` takes a minute, `.[dev]` with TensorFlow several. A file that needs more is run by
`make test-all` alone. Imports inside functions do not count: a test that makes one is marked slow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.checkout import ROOT

OURS = ("aggregator_server", "benchmarks", "demo", "edge_client", "fleet_protocol", "fleet_simulator", "model_export")
OURS += ("release", "studies", "tests")
HEAVY = frozenset(
    [
        *("ai_edge_litert", "axe_playwright_python", "flask", "flwr", "jax", "keras", "mkdocs", "moto", "obstore"),
        *("playwright", "psycopg", "python_speech_features", "ray", "scipy", "sklearn", "sklearn_extra"),
        *("tensorflow", "yaml"),
    ]
)


@cache
def needs(path: Path) -> frozenset[str]:
    """Return the heavy packages that importing a Python file imports."""
    return frozenset(name.partition(".")[0] for file in _reached(path) for name in _names(file)) & HEAVY


def _reached(path: Path) -> set[Path]:
    """Return the file, and our files that importing it imports."""
    found, waiting = {path}, [path]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Return our files that a file itself imports."""
    return frozenset(file for name in _names(path) if name.partition(".")[0] in OURS for file in _files(name))


def _files(name: str) -> Iterator[Path]:
    """Yield the files that importing a module of ours runs: its packages' and its own."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        folder = ROOT.joinpath(*parts[:depth])
        for file in (folder / "__init__.py", folder.with_suffix(".py")):
            if file.is_file():
                yield file


@cache
def _names(path: Path) -> frozenset[str]:
    """Return the modules that a file imports when it is imported."""
    return frozenset(_at_import(ast.parse(path.read_text()).body))


def _at_import(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module
            yield from (f"{statement.module}.{name.name}" for name in statement.names)
        elif isinstance(statement, ast.Try | ast.With | ast.ClassDef):
            yield from _at_import(statement.body)
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" not in ast.dump(statement.test):
            yield from _at_import(statement.body + statement.orelse)
