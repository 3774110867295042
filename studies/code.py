"""A digest of the code that a run's figures depend on, so that a stale result is never taken for a new one."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.bundles import ROOT

LEARNING = (
    "aggregator_server/aggregation",
    "aggregator_server/discovery",
    "aggregator_server/rounds/computation.py",
    "aggregator_server/rounds/plan.py",
    "aggregator_server/selection",
    "aggregator_server/strategies",
    "edge_client/features",
    "edge_client/learning",
    "edge_client/model",
    "edge_client/speech",
    "fleet_protocol",
    "fleet_simulator",
)
"""Files and folders that count for every run."""
# Whose modules are followed from one import to the next.
_FOLLOWED = ("benchmarks", "studies")


@cache
def code_of(module: str) -> str:
    """Return a digest of :data:`LEARNING`, and of a module with all that it imports of benchmarks and studies.

    Comments, docstrings and the form of the text do not count.

    Args:
        module: dotted name of the module that makes the figures.
    """
    digest = hashlib.sha256(_learning().encode())
    for name, path in sorted(_sources(module).items()):
        digest.update(f"{name}\0{meaning(path)}".encode())
    return digest.hexdigest()


@cache
def _learning() -> str:
    digest = hashlib.sha256()
    for name in LEARNING:
        path = ROOT / name
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(f"{source.relative_to(ROOT).as_posix()}\0{meaning(source)}".encode())
    return digest.hexdigest()


def meaning(path: Path) -> str:
    """Return a module's syntax tree as text, without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _sources(module: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    left = [module]
    while left:
        name = left.pop()
        path = None if name in found else _file(name)
        if path is not None:
            found[name] = path
            left += [other for other in _imports(path) if other.split(".")[0] in _FOLLOWED]
    return found


def _file(module: str) -> Path | None:
    """Return a module's source; None for what is no module, such as a function that is imported from one."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
