"""What to say where a program's libraries are not installed: which extra of the package brings them."""

from __future__ import annotations

_OWN = ("aggregator_server", "benchmarks", "edge_client", "fleet_protocol", "fleet_simulator", "model_export")


def describe_missing(error: ModuleNotFoundError, extra: str) -> str:
    """Return what to say of a library that is not there.

    Args:
        error: what the import raised.
        extra: of the package, which brings the program's libraries.

    Raises:
        ModuleNotFoundError: the error itself, where a module of Auricle's own is missing.
    """
    name = (error.name or "").partition(".")[0]
    if name in _OWN:
        raise error
    return f"the library {name} is not installed; needs: pip install 'auricle[{extra}]'"
