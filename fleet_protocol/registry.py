"""Methods by name: of a table or the files of ours, or in an installed package that names an entry point.

Adding a method is adding its row or file. Nothing is registered by running code: what a module exports is all that
counts.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Protocol, TypeVar

from fleet_protocol.errors import PluginError


class Named(Protocol):
    """A method that can be found by name."""

    @property
    def name(self) -> str:
        """Name in plans, experiments and documents."""


T = TypeVar("T", bound=Named)


Registry = dict[str, T]
"""Methods by name."""


@cache
def discover(package: str, attribute: str, group: str, kind: Any) -> Registry[Any]:  # noqa: ANN401  (a class or a union)
    """Return the methods, of a class or a union ``kind``, that a package's modules and installed packages export.

    The direct modules of ``package`` are imported, and asked for ``attribute``; a module that is no package has a table
    of methods, named in the plural. An entry point of ``group`` must have the name of the method that it leads to.

    Raises PluginError: a method cannot be loaded, is of another kind, or has a name that is taken.
    """
    found: Registry[Any] = {}
    root = import_module(package)
    for method in getattr(root, f"{attribute}S", ()):
        _add(found, method, package)
    for module in pkgutil.iter_modules(getattr(root, "__path__", ()), f"{package}."):
        method = getattr(import_module(module.name), attribute, None)
        if method is not None:
            _add(found, method, module.name)
    for entry in entry_points(group=group):
        _add(found, _load(entry, kind), _describe(entry))
    for where, own in _asked.items():
        method = getattr(own, attribute, None)
        if method is not None:
            _add(found, _of_kind(method, kind, f"{attribute} of {where} must be"), where)
    return found


def _add(found: Registry[Any], method: Any, where: str) -> None:  # noqa: ANN401  (as above)
    if method.name in found:
        raise PluginError(f"{where}: the name {method.name!r} is taken; choose another")
    found[method.name] = method


_asked: dict[str, ModuleType] = {}


def ask_modules(modules: Mapping[str, ModuleType]) -> None:
    """Have :func:`discover` ask these modules too, each named by where it is from, and no longer those of last time."""
    _asked.clear()
    _asked.update(modules)
    discover.cache_clear()


def _load(entry: EntryPoint, kind: Any) -> Any:  # noqa: ANN401  (as above)
    try:
        method = entry.load()
    except Exception as error:
        raise PluginError(f"{_describe(entry)} cannot be loaded: {type(error).__name__}: {error}") from error
    _of_kind(method, kind, f"{_describe(entry)} must lead to")
    if method.name != entry.name:
        raise PluginError(f"{_describe(entry)} leads to {method.name!r}; give the entry point that name")
    return method


def _of_kind(method: Any, kind: Any, what: str) -> Any:  # noqa: ANN401  (as above)
    if not isinstance(method, kind):
        raise PluginError(f"{what} a {getattr(kind, '__name__', kind)}, not {method!r}")
    return method


def _describe(entry: EntryPoint) -> str:
    return f"entry point {entry.name!r} ({entry.value}, group {entry.group})"
