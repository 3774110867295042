"""The networks of the zoo by name."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module

from model_export import zoo
from model_export.zoo.design import Design


def _found() -> dict[str, Design]:
    """Return what the modules of this folder export as ``MODELS``."""
    modules = [
        import_module(found.name)
        for found in pkgutil.iter_modules(zoo.__path__, f"{zoo.__name__}.")
        if not found.name.endswith(".registry")
    ]
    models: dict[str, Design] = {}
    for module in modules:
        models |= getattr(module, "MODELS", {})
    return models


ARCHITECTURES: Mapping[str, Design] = dict(sorted(_found().items()))
