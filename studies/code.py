"""A digest of the code that a run's figures depend on, so that a stale result is never taken for a new one."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fleet_simulator.runs.about import code_digest

# Whose modules are followed from one import to the next; the packages' sources count as a whole.
_FOLLOWED = ("benchmarks", "studies")


@cache
def code_of(module: str) -> str:
    """Return a digest of the packages' sources, and of a module with all that it imports of these.

    Args:
        module: dotted name of the module that makes the figures.
    """
    digest = hashlib.sha256(code_digest().encode())
    for name, path in sorted(_sources(module).items()):
        digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


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
