"""Methods in files of one's own, ``--plugin FILE``: found by name like those of installed packages.

A run's workers load the same bytes: a file that changes meanwhile is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from aggregator_server.aggregation.rule import rules
from aggregator_server.strategies.plans import strategies
from aggregator_server.strategies.selection import selections
from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.personalisation import personalisations
from fleet_protocol.errors import PluginError
from fleet_protocol.methods import local_methods as method_terms
from fleet_protocol.methods import personalisations as personalisation_terms
from fleet_protocol.methods.registry import ask_modules
from fleet_protocol.numbers.tensors import digest

_ATTRIBUTES = ("METHOD", "RULE", "SELECTION", "PERSONALISATION", "STRATEGY")

# What both sides know of a method that runs on devices is a registry of its own.
_OF_BOTH = (method_terms.local_methods, local_methods, personalisation_terms.personalisations, personalisations)
_REGISTRIES = (rules, selections, *_OF_BOTH, strategies)


@dataclass(frozen=True)
class Plugin:
    """A file with methods."""

    path: Path  # Absolute path of the file
    sha256: str  # Digest of its bytes


_modules: dict[Plugin, ModuleType] = {}
_used: tuple[Plugin, ...] = ()


def load_plugins(paths: Sequence[Path]) -> tuple[Plugin, ...]:
    """Use the methods of these files from now on, and no others' but those of installed packages.

    Raises PluginError: a file cannot be read or imported, has no method, or one that cannot be used.
    """
    plugins = tuple(Plugin(path.resolve(), digest(_read(path))) for path in paths)
    use_plugins(plugins)
    return plugins


def use_plugins(plugins: tuple[Plugin, ...]) -> None:
    """Use the methods of these files, as they were when the run began; nothing is done where they are used already.

    Raises PluginError: as above, or a file was changed.
    """
    global _used  # like the interpreter's modules
    if plugins == _used:
        return
    _ask({plugin: _module(plugin) for plugin in plugins})
    try:
        for found in _REGISTRIES:
            found()
    except PluginError:
        _ask({plugin: _module(plugin) for plugin in _used})
        raise
    _used = plugins


def _ask(modules: dict[Plugin, ModuleType]) -> None:
    ask_modules({f"the plugin {plugin.path}": module for plugin, module in modules.items()})
    strategies.cache_clear()


def _module(plugin: Plugin) -> ModuleType:
    if plugin in _modules:
        return _modules[plugin]
    source = _read(plugin.path)
    if digest(source) != plugin.sha256:
        raise PluginError(f"the plugin {plugin.path} was changed while the run was on; begin the run anew")
    module = ModuleType(f"plugin_{plugin.sha256[:16]}")
    module.__file__ = str(plugin.path)
    sys.modules[module.__name__] = module  # a dataclass in it looks there for its types
    try:
        exec(compile(source, plugin.path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102  (asked for by name)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise PluginError(f"the plugin {plugin.path} cannot be imported: {type(error).__name__}: {error}") from error
    if all(getattr(module, attribute, None) is None for attribute in _ATTRIBUTES):
        raise PluginError(
            f"the plugin {plugin.path} has none of {', '.join(_ATTRIBUTES)}; docs/writing-a-strategy.md shows one each"
        )
    _modules[plugin] = module
    return module


def _read(path: Path) -> bytes:
    if not path.is_file():  # a pipe or a device would never end
        raise PluginError(f"the plugin {path} is no file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginError(f"the plugin {path} cannot be read: {error.strerror}") from error
