"""Methods by name: of a table or the files of ours, or in an installed package that names an entry point.

Adding a method is adding its row or file. Nothing is registered by running code: what a module exports is all that
counts.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
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


def discover(
    attribute: str,
    group: str,
    kind: Any,  # noqa: ANN401  (a class or a union)
    *,
    table: tuple[Named, ...] = (),
    package: str | None = None,
) -> Registry[Any]:
    """Return the methods, of a class or a union ``kind``, of a table, a package's modules and installed packages.

    The direct modules of ``package`` are imported, and asked for ``attribute``. An entry point of ``group`` must have
    the name of the method that it leads to.

    Raises PluginError: a method cannot be loaded, is of another kind, or has a name that is taken.
    """
    known = _found.get((group, kind))
    if known is not None:
        return known
    found: Registry[Any] = {}
    for named in table:
        _add(found, named, "the table of ours")
    modules = [] if package is None else pkgutil.iter_modules(import_module(package).__path__, f"{package}.")
    for module in modules:
        method = getattr(import_module(module.name), attribute, None)
        if method is not None:
            _add(found, method, module.name)
    for entry in entry_points(group=group):
        _add(found, _load(entry, kind), _describe(entry))
    for where, own in _asked.items():
        method = getattr(own, attribute, None)
        if method is not None:
            _add(found, _of_kind(method, kind, f"{attribute} of {where} must be"), where)
    _found[group, kind] = found
    return found


def _add(found: Registry[Any], method: Any, where: str) -> None:  # noqa: ANN401  (as above)
    if method.name in found:
        raise PluginError(f"{where}: the name {method.name!r} is taken; choose another")
    found[method.name] = method


_asked: dict[str, ModuleType] = {}
_found: dict[tuple[str, Any], Registry[Any]] = {}


def ask_modules(modules: Mapping[str, ModuleType]) -> None:
    """Have :func:`discover` ask these modules too, each named by where it is from, and no longer those of last time."""
    _asked.clear()
    _asked.update(modules)
    _found.clear()


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
