"""The local methods that this device knows: those of this folder, and those of installed packages."""

from __future__ import annotations

from edge_client.errors import WorkError
from edge_client.learning.methods.local_method import LocalMethod, UnsharedMethod
from fleet_protocol.registry import Registry, discover


def local_methods() -> Registry[LocalMethod | UnsharedMethod]:
    """Return every local method by name.

    Raises:
        PluginError: an installed package's method cannot be used.
    """
    kinds = LocalMethod | UnsharedMethod
    return discover("edge_client.learning.methods", "METHOD", "auricle.local_methods", kinds)


def shared_model_methods() -> dict[str, LocalMethod]:
    """Return the local methods that train the shared model, by name.

    Raises:
        PluginError: an installed package's method cannot be used.
    """
    return {name: method for name, method in local_methods().items() if isinstance(method, LocalMethod)}


def shared_model_method(name: str) -> LocalMethod:
    """Return a local method that trains the shared model.

    Raises:
        WorkError: this device knows none of that name.
        PluginError: an installed package's method cannot be used.
    """
    method = local_methods().get(name)
    if not isinstance(method, LocalMethod):
        known = ", ".join(shared_model_methods())
        raise WorkError(f"no local method {name!r} trains a shared model here (these do: {known})")
    return method
