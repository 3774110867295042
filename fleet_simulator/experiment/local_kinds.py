"""The kinds of local methods that virtual devices can do: they upload weights, scores, or prototypes."""

from __future__ import annotations

from edge_client.learning.methods import prototypes, zero_shot
from edge_client.learning.methods.local_method import LocalMethod, UnsharedMethod
from edge_client.learning.methods.registry import local_methods
from fleet_simulator.errors import ExperimentError


def method_of(name: str) -> LocalMethod | UnsharedMethod:
    """Return a local method.

    Raises:
        ExperimentError: virtual devices cannot do it.
    """
    found = local_methods().get(name)
    if isinstance(found, LocalMethod) or (found and found.name in (prototypes.METHOD.name, zero_shot.METHOD.name)):
        return found
    raise ExperimentError(
        f"local method {name!r}: virtual devices do those that train a shared model, and "
        f"{prototypes.METHOD.name} and {zero_shot.METHOD.name}"
    )


def is_prototypes(method: LocalMethod | UnsharedMethod) -> bool:
    """Tell whether devices upload mean embeddings, and fit heads of their own."""
    return method.name == prototypes.METHOD.name


def is_scores(method: LocalMethod | UnsharedMethod) -> bool:
    """Tell whether devices upload scores of the public set, of models of their own."""
    return method.name == zero_shot.METHOD.name
