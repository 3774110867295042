"""Methods by name: of a table or the files of ours, or in an installed package that names an entry point.

Adding a method is adding its row or file. Nothing is registered by running code: what a module exports is all that
counts.
"""

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

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
    attribute: str, group: str, *kinds: type[T], table: tuple[T, ...] = (), package: str | None = None
) -> Registry[T]:
    """Return the methods, of one of the classes ``kinds``, of a table, a package's modules and installed packages.

    The direct modules of ``package`` are imported, and asked for ``attribute``: a method, or several. An entry point of
    ``group`` must have the name of the method that it leads to.

    Raises PluginError: a method cannot be loaded, is of another kind, or has a name that is taken.
    """
    known = _found.get((group, kinds))
    if known is not None:
        return cast(Registry[T], known)
    found: Registry[T] = {}
    for named in table:
        _add(found, named, "the table of ours")
    modules = [] if package is None else pkgutil.iter_modules(import_module(package).__path__, f"{package}.")
    for module in modules:
        methods = getattr(import_module(module.name), attribute, ())
        for method in methods if isinstance(methods, tuple) else (methods,):
            _add(found, method, module.name)
    for entry in entry_points(group=group):
        _add(found, _load(entry, kinds), _describe(entry))
    for where, own in _asked.items():
        method = getattr(own, attribute, None)
        if method is not None:
            _add(found, _of_kind(method, kinds, f"{attribute} of {where} must be"), where)
    _found[group, kinds] = found
    return found


def _add(found: Registry[T], method: T, where: str) -> None:
    if method.name in found:
        raise PluginError(f"{where}: the name {method.name!r} is taken; choose another")
    found[method.name] = method


_asked: dict[str, ModuleType] = {}
_found: dict[tuple[str, tuple[type, ...]], Any] = {}


def ask_modules(modules: Mapping[str, ModuleType]) -> None:
    """Have :func:`discover` ask these modules too, each named by where it is from, and no longer those of last time."""
    _asked.clear()
    _asked.update(modules)
    _found.clear()


def _load(entry: EntryPoint, kinds: tuple[type[T], ...]) -> T:
    try:
        loaded = entry.load()
    except Exception as error:
        raise PluginError(f"{_describe(entry)} cannot be loaded: {type(error).__name__}: {error}") from error
    method = _of_kind(loaded, kinds, f"{_describe(entry)} must lead to")
    if method.name != entry.name:
        raise PluginError(f"{_describe(entry)} leads to {method.name!r}; give the entry point that name")
    return method


def _of_kind(method: object, kinds: tuple[type[T], ...], what: str) -> T:
    if not isinstance(method, kinds):
        raise PluginError(f"{what} a {' or '.join(kind.__name__ for kind in kinds)}, not {method!r}")
    return method


def _describe(entry: EntryPoint) -> str:
    return f"entry point {entry.name!r} ({entry.value}, group {entry.group})"
